"""Exploring a service from its OpenAPI document.

::

    openapi       the document: its operations, their links, example values
    transports    requests and responses, and how they are sent: in process, or over HTTP
    logins        how an actor authenticates
    resources     what earlier responses created
    calls         which requests a state offers, by symbolic names
    requests      a symbolic call as a concrete request
    table_changes what changed between two observations
    checks        what a response and its changes say
    follow_ups    what only a second request shows
    ownership     whether a resource belongs to the actor that created it
    signed_in_states  checkpoints after logins
    sending       performs a call, judges it, learns from it
    calibration   what is volatile, and what is not rolled back
    naming        the identity of states: generated values are renamed
    turns         the order in which calls are tried
    reports       the result, and violations as scripts
    opening       opens systems, applications and documents by their addresses; runs migrations
    explorer      `explore_api`
"""
