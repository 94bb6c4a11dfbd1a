package main

import "testing"

// The generated code in the repository is that of the .proto files.
func TestFresh(t *testing.T) {
	if err := run("../../../adapters/grpc/proto", "../../..", true, false); err != nil {
		t.Error(err)
	}
	if err := run("../../../bench/lab/grpc/proto", "../../..", true, true); err != nil {
		t.Error(err)
	}
}
