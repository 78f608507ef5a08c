"""The model of an exploration: worlds, systems, actions, invariants, states and the state graph."""
