"""How long the tests let probes take, so that no answer depends on how busy the machine is."""

PATIENT_PROBES = 60.0  # seconds
