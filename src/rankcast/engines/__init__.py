"""The engines: tables in, tables out, as the contract says."""
