"""The OpenAPI document: its operations, the links between them, and the values of its schemas."""
