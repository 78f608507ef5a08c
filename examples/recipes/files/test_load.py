from load import graph

from clew import Engine


def test_a_bad_file_is_reported_and_the_others_are_loaded(tmp_path):
    (tmp_path / "good.json").write_text('{"amount": 3}')
    (tmp_path / "bad.json").write_text("{broken")
    result = Engine(graph).run({"folder": str(tmp_path)})
    assert result["report"] == {"files": 2, "total": 3, "bad": [str(tmp_path / "bad.json")]}
    assert [failure.rescued for failure in result.failures] == [True]


def test_an_empty_folder_has_a_report(tmp_path):
    assert Engine(graph).run({"folder": str(tmp_path)})["report"] == {"files": 0, "total": 0, "bad": []}
