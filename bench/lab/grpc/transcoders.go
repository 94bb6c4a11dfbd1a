package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"connectrpc.com/vanguard"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"dragoman/bench/lab/grpc/echopb"
)

// httpServer is a transcoder behind net/http.
type httpServer struct {
	http  *http.Server
	close func() error // its connection to the server
}

func newHTTPServer(h http.Handler, end func() error) server {
	return httpServer{&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}, end}
}

func (s httpServer) serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s httpServer) stop() { _, _ = s.http.Close(), s.close() }

// newVanguard transcodes by Vanguard: the unary protocol of Connect, which is JSON posted to the method's path, to gRPC.
func newVanguard(to string) (server, error) {
	var unencrypted http.Protocols
	unencrypted.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &unencrypted}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: to}) }}
	service := vanguard.NewService("/"+echopb.Echo_ServiceDesc.ServiceName+"/", proxy,
		vanguard.WithTargetProtocols(vanguard.ProtocolGRPC), vanguard.WithTargetCodecs(vanguard.CodecProto), vanguard.WithNoTargetCompression())
	h, err := vanguard.NewTranscoder([]*vanguard.Service{service})
	if err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	return newHTTPServer(h, func() error { transport.CloseIdleConnections(); return nil }), nil
}

// newGateway transcodes by the code that grpc-gateway generates: JSON posted to the method's path.
func newGateway(ctx context.Context, to string) (server, error) {
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	mux := runtime.NewServeMux()
	if err := echopb.RegisterEchoHandler(ctx, mux, conn); err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	return newHTTPServer(mux, conn.Close), nil
}
