"""The process in which databases execute queries. It imports no other part of this package, so that it starts fast."""
