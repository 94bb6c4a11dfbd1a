package mutants

import "dragoman/conformance/peer"

// modernMutants break what 2026-07-28 demands.
func modernMutants() []mutant {
	return []mutant{
		{name: "believes the body whatever the header says", caught: "request.version-mismatch", request: func(x *exchange) {
			if x.Request != nil && x.Header.Get("Mcp-Protocol-Version") != "" {
				x.Header.Set("Mcp-Protocol-Version", peer.R2607)
			}
		}},
	}
}
