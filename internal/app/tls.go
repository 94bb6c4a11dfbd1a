package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/config"
)

// SecureListener returns a listener that speaks TLS over ln, or ln itself if no certificate is configured. loaded is
// called with the expiry of each certificate.
func SecureListener(c *config.TLSConfig, ln net.Listener, log zerolog.Logger, loaded func(ends time.Time)) (net.Listener, error) {
	if c.CertFile == "" {
		return ln, nil
	}
	own := &ownCertificate{conf: c, log: log, loaded: loaded}
	if _, err := own.get(nil); err != nil {
		return nil, err
	}
	conf := &tls.Config{GetCertificate: own.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if c.MinVersion == "1.3" {
		conf.MinVersion = tls.VersionTLS13
	}
	if c.ClientAuth == config.ClientAuthNone {
		return httpserver.SecureListener(ln, conf), nil
	}
	roots, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, errors.New("tls: client_ca_file holds no PEM certificate")
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	if c.ClientAuth == config.ClientAuthOptional {
		conf.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return httpserver.SecureListener(ln, conf), nil
}

// ownCertificate is the listener's certificate. It is read again when its files have changed: certificates that are
// renewed automatically last for weeks only.
type ownCertificate struct {
	conf   *config.TLSConfig
	log    zerolog.Logger
	loaded func(ends time.Time)

	mu   sync.Mutex
	pair *tls.Certificate
	at   [2]time.Time // modification times of the files that pair was read from, or that could not be read
}

// get implements tls.Config.GetCertificate. While the two files do not match, as between the replacement of one and of
// the other, it returns the previous certificate.
func (o *ownCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	at := [2]time.Time{modified(o.conf.CertFile), modified(o.conf.KeyFile)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pair != nil && at == o.at {
		return o.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(o.conf.CertFile, o.conf.KeyFile)
	o.at = at
	switch {
	case err == nil && o.pair != nil:
		o.log.Info().Msg("the listener's certificate was read again")
	case err != nil && o.pair == nil:
		return nil, fmt.Errorf("tls: %w", err)
	case err != nil:
		o.log.Warn().Err(err).Msg("the listener's new certificate cannot be used; the previous one stays in use")
		return o.pair, nil
	}
	o.pair = &pair
	o.loaded(pair.Leaf.NotAfter)
	return o.pair, nil
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
