# Dragoman. `make` alone lists the targets.
#
#   LISTEN, ADMIN   addresses of `make run` and `make run-providers`
#   FUZZTIME        how long `make fuzz` runs each target
#   FUZZ            a regular expression of the names of targets
#   VERSION         version of `make image` and `make release`: v1.2.3
#   TAGS            parts that a standard build leaves out: qdrant
#   ARGS            arguments for `make bench`, `make counts`, `make peers`, `make soak`, `make servers`, `make services`, `make conformance` and `make beside`

LISTEN   ?= 127.0.0.1:8080
ADMIN    ?= 127.0.0.1:9090
FUZZTIME ?= 5m
FUZZ     ?= .
ARGS     ?=
VERSION  ?=
TAGS     ?=
comma    := ,

# The server of `make run`, in the version of the conformance tests.
EVERYTHING := @modelcontextprotocol/server-everything@$(shell sed -n 's/.*"@modelcontextprotocol\/server-everything": "\([^"]*\)".*/\1/p' conformance/package.json)

# Without git (no git, no repository, another owner) a build cannot be stamped with a revision.
ifeq ($(shell git rev-parse --git-dir 2>/dev/null),)
export GOFLAGS := $(GOFLAGS) -buildvcs=false
endif

# The race detector needs a C compiler. Without one the tests run without it, and say so.
RACE := $(shell command -v "$$(go env CC 2>/dev/null)" >/dev/null 2>&1 && echo -race)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build run run-providers test check proto laws unit race raced raced-a-q raced-r-z lint browser opa registries events vulnerabilities fuzz smoke bench counts counted ratioed micro peers soak soaked conformance matrix cells clients conformed embedding vectors qdrant servers served services skills generators generated makers made setups registered rested alerts faults faulted policied policed rolling rolled beside besides packages docs image imaged deployed release released installed packed clean

help: ## list the targets
	@echo "usage: make TARGET"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

build: ## build ./dragoman, a static binary
	@command -v go >/dev/null || { echo "make: go is missing: install Go 1.26 or later (https://go.dev/dl)" >&2; exit 1; }
	CGO_ENABLED=0 go build -trimpath -tags grpcnotrace$(if $(TAGS),$(comma)$(TAGS)) -o dragoman .

run: build ## build, start a real MCP server behind Dragoman on LISTEN, and say what to try
	@set -eu; \
	if command -v npx >/dev/null && npm_config_fetch_retries=1 npx -y --loglevel=error --package=$(EVERYTHING) -- node -e 0 </dev/null; then \
		set -- npx -y $(EVERYTHING); \
	else \
		echo "npx is missing, or cannot fetch $(EVERYTHING): the built-in server takes its place" >&2; \
		set -- ./dragoman demo; \
	fi; \
	printf '%s\n\n    server: %s\n' "$$TRY" "$$*"; \
	exec ./dragoman serve --listen $(LISTEN) --admin $(ADMIN) -- "$$@"

run-providers: build ## build and start the gRPC providers of examples/ behind Dragoman on LISTEN, and say what to try (the first run: two minutes)
	@LISTEN=$(LISTEN) ADMIN=$(ADMIN) exec examples/run.sh

check: ## linters, the repository's laws and the Go tests without the race detector (two minutes; the first run builds the linter)
	@.ci/steps check lint laws unit

test: ## install what the tests need, and run all tests (about 50 minutes)
	@.ci/steps test packages lint raced raced-a-q+raced-r-z smoke cells clients conformed+faulted rested+served+services made+besides generated+scaffolded+skills alerts+rolled policed counted ratioed packed+registries+soaked

# Modules of their own, so that their dependencies are not those of the product. Their tests are part of the Go tests.
LABS := bench/lab conformance/beside conformance/grpc deploy/pages deploy/tools

browser: ## pages of other origins in a real Chromium, which is not installed for it
	@go test -count=1 -v -run 'TestChromium$$' ./internal/e2e -browser

opa: ## the policy hook at a real Open Policy Agent, which is built first (three minutes)
	conformance/opa/setup.sh
	@go test -count=1 -run 'TestOpenPolicyAgent$$' ./internal/e2e -opa $(CURDIR)/conformance/opa/.bin/opa

registries: ## servers of the official MCP registry with 10,000 entries, and this one's own list of servers; the registry is built first (two minutes)
	conformance/registry/setup.sh
	internal/testkit/database/setup.sh
	@go test -count=1 -v -run 'TestOfficial(Registry|Bundle)$$' ./internal/cli -registry $(CURDIR)/conformance/registry/.bin/registry -registry-source "$$(go -C conformance/registry list -m -f '{{.Dir}}' github.com/modelcontextprotocol/registry)"

events: ## 5,000 events a second to webhooks that fail half of the time and to a NATS that restarts, for a minute: the queues alone, and a provider's
	go test -count=1 -v -run 'TestLoad$$' -timeout 10m ./adapters/events -events-time 60s -events-rate 5000
	go test -count=1 -v -run 'TestProviderLoad$$' -timeout 10m ./internal/e2e -events-time 60s -events-rate 5000

# Go's test cache does not know the files that the laws read.
proto: ## generate the Go code of the .proto files
	go -C deploy/tools run ./protogen ../../adapters/grpc/proto ../..
	go -C deploy/tools run ./protogen -gateway ../../bench/lab/grpc/proto ../..

laws: ## the tests about the repository: imports, sizes, documents, rules
	go test -count=1 ./internal/laws

unit: ## the Go tests, without the race detector and the end-to-end tests
	go test $$(go list ./... | grep -v '/internal/\(e2e\|laws\)$$')

race: ## all Go tests, with the race detector
	@.ci/steps race raced raced-a-q+raced-r-z

raced:
	@[ -n "$(RACE)" ] || echo "make: no C compiler: the tests run without the race detector"
	@status=0; go test $(RACE) -timeout 20m $$(go list ./... | grep -v '/internal/e2e$$') || status=1; \
	for dir in $(LABS); do (set -x; go -C $$dir test $(RACE) -timeout 20m ./...) || status=1; done; exit $$status

# The end-to-end tests mostly wait: two halves, by the first letter, take little more than half of the time.
raced-a-q:
	go test $(RACE) -timeout 20m -run '^Test[A-Q]' ./internal/e2e

raced-r-z:
	go test $(RACE) -timeout 20m -skip '^Test[A-Q]' ./internal/e2e

# Pinned, so that their findings do not change by themselves. The linter is built once.
LINTER      := 2.15.0
LINT        := $(CURDIR)/.tmp/golangci-lint-$(LINTER)
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

$(LINT):
	@echo "make: building golangci-lint $(LINTER), once; this takes a minute or two"
	@mkdir -p .tmp/bin
	GOBIN=$(CURDIR)/.tmp/bin GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINTER)
	@mv .tmp/bin/golangci-lint $@

lint: $(LINT) ## golangci-lint, pinned, with go vet and gofmt; .golangci.yml configures it
	go vet -tags qdrant ./internal/app/target
	@status=0; for dir in . $(LABS); do (cd $$dir && set -x && $(LINT) run --config $(CURDIR)/.golangci.yml ./...) || status=1; done; exit $$status

vulnerabilities: ## known vulnerabilities of the dependencies, by govulncheck, which queries vuln.go.dev
	go run $(GOVULNCHECK) ./...

# On a busy machine `go test` may report the end of FUZZTIME as a failure without a failing input. Then the target runs once more.
fuzz: ## every fuzz target in turn, FUZZTIME each (5m); FUZZ=REGEX selects some
	@set -eu; log=$$(mktemp); trap 'rm -f "$$log" "$$log.status"' EXIT; \
	run() { { echo "$$*"; code=0; "$$@" </dev/null || code=$$?; echo $$code >"$$log.status"; } 2>&1 | tee "$$log"; return "$$(cat "$$log.status")"; }; \
	grep -roE --include='*_test.go' --exclude-dir=node_modules --exclude-dir='.?*' '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	sed 's/:func /:/' | while IFS=: read -r file name; do \
		echo "$$name" | grep -qE '$(FUZZ)' || continue; \
		set -- go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$(dirname "$$file")"; \
		run "$$@" && continue; \
		grep -q '^ *context deadline exceeded$$' "$$log" && ! grep -q 'Failing input' "$$log" && run "$$@" || exit 1; \
	done

# The targets that `make test` fuzzes: the parsers of untrusted bytes. The seeds of all targets are part of `go test`.
smoke:
	@$(MAKE) --no-print-directory fuzz FUZZTIME=6s FUZZ='^Fuzz(Scan|Reader|Splitter|HeaderValue|OpenState|Canonical|Check|ScanKnown|Ambiguous|Again|TrustProxies|URI|ServerJSON|Page|Manifest|Bundle|Through|Search|Files|Event|Own|Letter|Read|Split)$$'

bench: build ## the cost of a hop compared with a bare proxy and nginx (half an hour); ARGS=--short takes five
	bench/run.sh $(ARGS)

micro: ## Go benchmarks compared with those of the last release by benchstat; ARGS='--against REVISION proxy/wire'
	bench/micro.sh $(ARGS)

counts: build ## instructions of a call by callgrind, against the limits in bench/instructions.tsv
	bench/run.sh --instructions 6400 --limits bench/instructions.tsv $(ARGS)

counted:
	@$(MAKE) --no-print-directory counts ARGS='--cells modern,legacy'

# Allocations and the memory of large answers, without the race detector, which allocates too; and the CPU time of a call against the bare
# proxy's in the same rounds; and the first answers after a start.
ratioed: build
	go test -count=1 -run '^Test(Allocations|LargeAnswer)' ./internal/e2e
	bench/run.sh --limits bench/ratios.tsv --cells modern,legacy,stdio --duration 500ms
	bench/run.sh --limits bench/starts.tsv --sections start --rounds 5
	@echo "make: trying every other section of make bench; its figures mean nothing" && \
		bench/run.sh --sections sse,latency,policies,allocations,growth,several,grpc --ghz none --rounds 1 --duration 100ms --warmup 50ms --results bench/.tmp/results >bench/.tmp/sections.txt || \
		{ cat bench/.tmp/sections.txt; exit 1; }

soak: build ## look for leaks under load and for processes that survive a kill, about seven minutes; ARGS='--duration 1h' or --short
	@mkdir -p bench/.tmp
	go -C bench/lab build -o ../.tmp/soak ./soak
	bench/.tmp/soak $(ARGS)

soaked:
	@$(MAKE) --no-print-directory soak ARGS=--short

peers: build ## compare with other bridges and gateways (an hour and a quarter; ARGS=--short is quicker)
	bench/lab/peers/run.sh $(ARGS)

packages:
	@command -v node >/dev/null || { echo "make: node is missing: the conformance cells run real MCP clients and servers from npm." >&2; \
		echo "make: install Node.js 20 or later (https://nodejs.org); the Go tests alone are: make race" >&2; exit 1; }
	conformance/setup.sh
	conformance/embedding/setup.sh
	internal/testkit/database/setup.sh
	internal/testkit/database/setup.sh vector

embedding: ## what all-MiniLM-L6-v2 makes of texts is written anew with its makers' library (5 GB), and compared with ours
	conformance/embedding/setup.sh reference
	conformance/embedding/.venv/bin/python conformance/embedding/reference.py
	@go test -count=1 -v -run 'TestPublishedModel$$' -bench Embed ./adapters/search/embedding/bert

vectors: ## searches among 10,000 tools in PostgreSQL with pgvector, and among 100,000 in memory, are measured (two minutes)
	internal/testkit/database/setup.sh vector
	@go test -count=1 -v -run '^$$' -bench . -benchtime 300x ./adapters/search/vectors/...

qdrant: ## the store of vectors in Qdrant at Qdrant's own engine, which is installed first (180 MB)
	conformance/qdrant/setup.sh
	@go test -count=1 -v -run 'TestEngine$$' ./adapters/search/vectors/qdrant -engine $(CURDIR)/conformance/qdrant

conformance: build packages ## every kind of client at every kind of server; ARGS='--short CELL_RE FACE_RE'
	conformance/cells.sh $(ARGS)

matrix: build packages ## all conformance tests in the long form; writes conformance/MATRIX.md (about twenty-five minutes)
	@status=0; \
	conformance/cells.sh --results conformance/results.tsv || status=1; \
	conformance/cells.sh --merged --results conformance/results.tsv || status=1; \
	conformance/client-suite.sh --results conformance/results.tsv || status=1; \
	go run ./conformance/matrix || status=1; \
	exit $$status

servers: build packages ## real stdio servers from npm, PyPI and Go, which must leave nothing behind; ARGS='--short SERVER_RE'
	conformance/servers/setup.sh
	conformance/servers/run.mjs $(ARGS)
	@case "$(ARGS)" in *--short*) ;; *) conformance/servers/run.mjs --merged;; esac

served:
	@$(MAKE) --no-print-directory servers ARGS=--short

scaffolds: build packages ## fresh projects of `dragoman new server`: linters, tests, conformance, ten minutes of load, SIGTERM (twenty minutes); ARGS=--short
	conformance/scaffolds/run.sh $(ARGS)

scaffolded:
	@$(MAKE) --no-print-directory scaffolds ARGS=--short

services: build ## every method of real gRPC services, etcd among them, called as tools (fifteen seconds); ARGS=-update writes conformance/grpc/RESULTS.md
	conformance/grpc/setup.sh
	cd conformance/grpc && go test -count=1 -timeout 5m -run 'TestServices$$' . -dragoman $(CURDIR)/dragoman $(ARGS)

skills: build packages ## Agent Skills (SEP-2640) with FastMCP and the official suite
	conformance/skills/setup.sh
	conformance/skills/run.sh

generators: build packages ## code generated for the servers of `make servers`: judged by linters and compilers, called, and compared with MCP; writes conformance/generated/RESULTS.md (ten minutes)
	conformance/servers/setup.sh
	conformance/generated/setup.sh
	conformance/generated/run.mjs $(if $(ARGS),$(ARGS),--table)

generated:
	@$(MAKE) --no-print-directory generators ARGS=--short

makers: build ## clients and servers of other makers; writes conformance/makers/RESULTS.md (ten minutes)
	conformance/makers/setup.sh
	conformance/makers/run.mjs --table conformance/makers/RESULTS.md

# Without a JDK, Maven and Rust this is left out, except in CI.
made: build
	@if [ -n "$$CI" ] || { command -v javac && command -v mvn && command -v cargo; } >/dev/null; then \
		conformance/makers/setup.sh && conformance/makers/run.mjs --short; \
	else echo "make: without a JDK, Maven and Rust the clients and servers of other makers are left out"; fi

setups: build ## the real Claude Code, Codex and Gemini CLI read and start what dragoman setup writes (760 MB from npm, half a minute)
	conformance/setup/run.sh

registered: build ## Schemathesis at the API by which servers are registered (a minute)
	conformance/rest/registered.sh

rested: build packages
	conformance/rest/registered.sh --short
	conformance/rest/schemathesis.sh --short
	conformance/rest/client.sh
	conformance/rest/servers.py --brief --jobs 3
	conformance/rest/clients.py 'suite@20(25-11-25|26-07-28)'

# A module of its own, because of its dependencies. The cases mostly wait, so many run at once.
faults: build ## network faults between Dragoman and server, by Toxiproxy; writes conformance/faults/RESULTS.md; ARGS=-short is quicker
	cd conformance/faults && FAULTS_RESULTS=RESULTS.md go test -count=1 -parallel 24 -timeout 20m $(ARGS) .

faulted:
	@$(MAKE) --no-print-directory faults ARGS=-short

policied: build packages ## the short conformance tests with every policy on
	conformance/policies/with.sh conformance/cells.sh --short
	conformance/policies/with.sh conformance/cells.sh --short --merged
	conformance/policies/with.sh conformance/client-suite.sh --short
	conformance/policies/with.sh conformance/rest/servers.py --brief --jobs 3
	conformance/servers/setup.sh
	conformance/policies/with.sh conformance/servers/run.mjs --short

# A module of its own, because of Prometheus's parser.
alerts:
	cd conformance/promql && go test -count=1 .

# Policies act between client and Dragoman: one server of each era and transport.
policed: build packages
	conformance/policies/with.sh conformance/cells.sh --short '^(modern-http|legacy-http|legacy-sse|legacy-stdio|modern-stdio|rest)$$'

rolling: build ## restart two Dragomans behind HAProxy repeatedly under load: no request may fail; ARGS='--rounds 20'
	bench/lab/rolling/run.sh $(ARGS)

rolled:
	@$(MAKE) --no-print-directory rolling ARGS='--rounds 1 --clients 2'

cells: build
	conformance/cells.sh --short
	conformance/cells.sh --short --merged

clients: build
	conformance/client-suite.sh --short

conformed: build packages
	conformance/self.sh

beside: build packages ## our suite compared with the official one at real servers; writes conformance/BESIDE.md (about seven minutes); ARGS=--short is quicker
	conformance/beside/setup.sh
	go -C conformance/beside build -o ../.tmp/beside .
	conformance/.tmp/beside $(ARGS)

besides:
	@$(MAKE) --no-print-directory beside ARGS=--short

docs: build ## generate docs/configuration.md, docs/config.schema.json and docs/checks (not in git) from the code
	./dragoman config reference > docs/configuration.md
	./dragoman config schema > docs/config.schema.json
	./dragoman conformance --list --markdown docs/checks/

image: ## the container image for amd64 and arm64, with buildah or docker, into dist/ (deploy/README.md)
	VERSION='$(VERSION)' deploy/image.sh

imaged:
	deploy/check/image.sh

# A module of its own, because of Helm, which is compiled once.
deployed: build ## check the manifests with the types of Kubernetes, the chart with Helm, the unit with systemd
	cd deploy/check && CGO_ENABLED=0 go test -count=1 -timeout 20m .

release: ## archives and packages for every system, SBOMs, provenance and checksums, into dist/; VERSION=v1.2.3 names it
	VERSION='$(VERSION)' deploy/release.sh

released:
	deploy/check/release.sh

installed: packages ## install a release in every way, up to the first answer; writes deploy/INSTALLED.md (five minutes)
	deploy/check/installed.sh

packed: packages
	deploy/check/installed.sh --short

clean: ## remove built files and logs; installed packages stay
	rm -rf dragoman bench/.tmp/bench bench/.tmp/soak conformance/.tmp examples/.build

# The output of `make run`. Tests try it: each command works at every server that has a tool "echo".
define TRY

Dragoman is about to serve http://$(LISTEN)/mcp, until Ctrl-C. In another terminal,

a modern client (revision 2026-07-28) lists the tools,

    curl -s http://$(LISTEN)/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'

and calls one,

    curl -s http://$(LISTEN)/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: echo' -d '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'

a legacy client (here 2025-11-25) opens a session at the same address,

    curl -si http://$(LISTEN)/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}'

and one of 2024-11-05 opens its stream:

    curl -N http://$(LISTEN)/sse

$(if $(filter off,$(ADMIN)),,Health and metrics: curl http://$(ADMIN)/readyz http://$(ADMIN)/metrics)
endef
export TRY
