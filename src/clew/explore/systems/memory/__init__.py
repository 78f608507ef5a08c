"""Systems in memory: fakes and a queue."""
