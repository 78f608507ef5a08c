import library

from clew import Engine


def test_a_changed_prompt_repeats_only_the_answer(monkeypatch, capsys):
    engine = Engine(library.graph)
    engine.run({"question": "why do ships float?", "pages": library.PAGES}, run_id="q1")
    capsys.readouterr()
    monkeypatch.setattr(library, "PROMPT", "In one word. Sources: {sources} Question: {question}")
    assert engine.rerun("q1")["answer"].startswith("IN ONE WORD.")
    assert capsys.readouterr().out == "  (asking the model)\n"  # and no embedding
