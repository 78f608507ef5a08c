from explore_shop import agent


def test_the_exploration_finds_the_second_refund(tmp_path):
    result = agent(str(tmp_path / "shop.db")).explore()
    assert [violation.name for violation in result.violations] == ["refunded_once"]
    assert not result.truncated
