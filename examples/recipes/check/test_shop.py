from shop import check, fixed


def test_the_check_finds_the_second_charge():
    assert [violation.name for violation in check.run().violations] == ["charged once"]


def test_the_fix_holds_under_every_schedule_and_fault():
    result = fixed.run()
    assert result.ok, str(result)
