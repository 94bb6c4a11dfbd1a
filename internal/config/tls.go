package config

import (
	"crypto/tls"
	"fmt"
	"os"
	"runtime"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

func tlsKeys() []setting[Config] {
	file := func(at func(*TLSConfig) *string) func(*Config) field.Field {
		return func(c *Config) field.Field { return field.Text{At: at(&c.TLS), What: "a PEM file", Empty: true} }
	}
	return []setting[Config]{
		{Key: tlsTable + "cert_file", std: "", doc: "PEM file of the main listener's certificate chain; turns TLS on", field: file(func(t *TLSConfig) *string { return &t.CertFile })},
		{Key: tlsTable + "key_file", std: "", doc: "PEM file of its private key", field: file(func(t *TLSConfig) *string { return &t.KeyFile })},
		{Key: tlsTable + "client_ca_file", std: "", doc: "PEM file of the roots of client certificates", field: file(func(t *TLSConfig) *string { return &t.ClientCAFile })},
		{Key: tlsTable + "client_auth", std: ClientAuthNone, doc: "whether clients may or must present a certificate, which identifies them",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.TLS.ClientAuth, Values: []string{ClientAuthNone, ClientAuthOptional, clientAuthRequired}}
			}},
		{Key: tlsTable + "client_scopes", std: "", doc: "scopes of a client certificate",
			field: func(c *Config) field.Field {
				return field.List{At: &c.TLS.ClientScopes, Check: checkScope, What: "a list of scopes", Most: maxScope, Commas: true}
			}},
		{Key: tlsTable + "min_version", std: "1.2", doc: "lowest TLS version",
			field: func(c *Config) field.Field { return field.Enum{At: &c.TLS.MinVersion, Values: []string{"1.2", "1.3"}} }},
	}
}

// checkTLS reports files that cannot be used, and settings without others that they need.
func (l *loader) checkTLS() {
	t := &l.cfg.TLS
	fail := func(key, what, fix string) {
		l.fail(&value.Problem{What: what, Fix: fix}, tlsTable+key, l.cfg.sources[tlsTable+key], "")
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		fail("cert_file", "needs key_file too", "set "+tlsTable+"key_file")
	case t.KeyFile != "" && t.CertFile == "":
		fail("key_file", "needs cert_file too", "set "+tlsTable+"cert_file")
	case t.CertFile != "":
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			fail("cert_file", fmt.Sprintf("cannot be used with key_file: %v", value.Reason(err)), "check both: PEM, and the key of this certificate")
		}
		if info, err := os.Stat(t.KeyFile); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
			l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("%skey_file: everybody on this machine may read or write %q (mode %04o); chmod 600 it", tlsTable, t.KeyFile, info.Mode().Perm()))
		}
	}
	if t.ClientAuth == ClientAuthNone {
		if t.ClientCAFile != "" {
			fail("client_ca_file", "is set, but client_auth is none: nobody is asked for a certificate", "write "+tlsTable+"client_auth = \"required\" or \"optional\"")
		}
		if len(t.ClientScopes) > 0 {
			fail("client_scopes", "is set, but client_auth is none: nobody is asked for a certificate", "write "+tlsTable+"client_auth = \"required\" or \"optional\"")
		}
		return
	}
	if t.CertFile == "" {
		fail("client_auth", "needs TLS", "set "+tlsTable+"cert_file and "+tlsTable+"key_file")
	}
	if t.ClientCAFile == "" {
		fail("client_auth", "needs client_ca_file: without it the system's roots would count, and with them anybody", "set "+tlsTable+"client_ca_file")
	}
	if err := value.CheckRoots(t.ClientCAFile); err != nil {
		l.fail(err, tlsTable+"client_ca_file", l.cfg.sources[tlsTable+"client_ca_file"], "")
	}
}
