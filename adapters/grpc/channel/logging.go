package channel

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// gRPC logs on its own, to standard error: among other things each server that has no health service. What matters of it is in the statuses of
// calls. Its documentation allows another logger to be set at this time only.
func init() { //nolint:gochecknoinits // see above
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}
