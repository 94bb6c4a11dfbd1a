package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nginxConf makes nginx comparable with the others: one process, kept connections on both sides, bodies in memory, no log.
// keepalive_requests is very high because nginx otherwise closes a connection after 1000 requests.
const nginxConf = `daemon off;
master_process off;
pid {dir}/pid;
error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	tcp_nodelay on;
	server_tokens off;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/proxy;
	fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi;
	scgi_temp_path {dir}/scgi;
	client_max_body_size 64m;
	client_body_buffer_size 33m;
	proxy_buffers 8 1m;
	proxy_buffer_size 16k;
	proxy_busy_buffers_size 2m;
	proxy_max_temp_file_size 0;
	keepalive_timeout 600s;
	keepalive_requests 1000000000;
	upstream reference {
		server {upstream};
		keepalive 512;
		keepalive_requests 1000000000;
		keepalive_timeout 600s;
	}
	server {
		listen {listen};
		location / {
			proxy_pass http://reference;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
		}
	}
}
`

// writeNginxConf writes the configuration to dir, where nginx also keeps its temporary files, and returns its name.
func writeNginxConf(dir, listen, upstream string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("bench: nginx: %w", err)
	}
	file := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("{dir}", dir, "{listen}", listen, "{upstream}", upstream).Replace(nginxConf)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("bench: nginx: %w", err)
	}
	return file, nil
}
