import os

os.environ.setdefault("OPENAI_API_KEY", "not used: no request is sent")

import ask

from clew import Engine


def test_requests_are_sent_once_and_replayed_without_a_network(monkeypatch, tmp_path):
    sent = []

    def complete(model, messages):
        sent.append(messages[0]["content"])
        return f"answer {len(sent)}"

    monkeypatch.setattr(ask, "complete", complete)
    with Engine(ask.graph, store=tmp_path / "runs.db") as engine:
        result = engine.run({"text": "Ships sail.", "language": "French"}, run_id="r1")
        assert result["translation"] == "answer 2"
        assert engine.replay("r1").ok
    assert sent == ["Summarize in one sentence: Ships sail.", "Translate into French: answer 1"]
