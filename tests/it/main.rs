//! One process and its neighbours: the real binary, a ledger, a provider, a client.
