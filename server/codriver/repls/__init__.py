"""REPLs: the contract of an adapter, adapters by protocol, discovery, supervision, evaluations run and interrupted."""
