package main

import "testing"

// The generated code in the repository is that of the .proto files.
func TestFresh(t *testing.T) {
	if err := run("../../../adapters/grpc/proto", "../../..", true); err != nil {
		t.Error(err)
	}
}
