package channel

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// The library logs to standard error by itself, for example each server without a health service. The statuses of calls say what matters of that.
// Its documentation allows another logger to be set at this time only.
func init() { //nolint:gochecknoinits // see above
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}
