# hive-test: build, try and test it. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Go and hive-test keep what they make below HOME: where it is not set, it is the user's all the same.
export HOME ?= $(shell unset HOME; echo ~)

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X hive-test/pkg/cli.version=$(VERSION)
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)"
PROGRAMS := bin/hive-test bin/hive-sim bin/hive-sim-hive
SOURCES := $(shell find cmd pkg tofu cloudinit -name '*.go' -o -name '*.sh' -o -name '*.tf' -o -name '*.tmpl' -o -name '*.json') go.mod go.sum

# ------------------------------------------------------------------------------------------------ build
.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: $(PROGRAMS) ## build bin/hive-test and the simulator, bin/hive-sim and bin/hive-sim-hive

# One call builds all: what they share is compiled once, and they are linked at the same time.
$(PROGRAMS) &: $(SOURCES)
	@test -e bin/hive-test || echo "building hive-test and its simulator: a minute or two the first time"
	$(BUILD) -o bin/ ./cmd/...

TARGETS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: cross
cross: ## compile hive-test for Linux and macOS on amd64 and arm64
	@for target in $(TARGETS); do \
		echo "build $$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 $(GO) build -trimpath -o /dev/null ./cmd/hive-test || exit 1; \
	done

GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1

.PHONY: snapshot
snapshot: ## make archives and packages as a release has them in bin/dist, without the image; publishes nothing
	$(GO) run $(GORELEASER) check .ci/goreleaser.yaml
	$(GO) run $(GORELEASER) release --config .ci/goreleaser.yaml --snapshot --clean --skip=publish,docker

.PHONY: release
release: ## publish what `make snapshot` makes, and the image, as the release of the tag that is checked out
	$(GO) run $(GORELEASER) release --config .ci/goreleaser.yaml --clean

# ------------------------------------------------------------------------------------------------ tofu
.PHONY: tofu
tofu: ## build OpenTofu from the Go module proxy, for machines that can download nothing else
	@GO=$(GO) tofu/program/get.sh --build

.PHONY: ensure-tofu
ensure-tofu: bin/hive-test
	@GO=$(GO) tofu/program/get.sh

# ------------------------------------------------------------------------------------------------ try
.PHONY: demo
demo: build ensure-tofu ## the whole life of a cluster on a simulated Proxmox, up to a green report
	bin/hive-test full demo --sim --clusters-dir clusters

# ------------------------------------------------------------------------------------------------ test
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
PACKAGES  ?= ./...
# CI gives up to two tests that fail a second try, and lists them: its machine may be busy with other things.
RERUN     ?=
# How many tests of a package run at once: more than there are processors, for most wait for something.
PARALLEL  ?= 4

# The program that `make scripts` runs reports data races, each as a failed test, and what it covers. It takes three times as long to
# start, and scripts start it by the thousand.
CHECKED := bin/checked
COVERED := bin/coverage

bin/checked/hive-test: $(SOURCES)
	CGO_ENABLED=1 $(GO) build -race -cover -coverpkg=./cmd/hive-test,./pkg/... -trimpath -ldflags "$(LDFLAGS)" -o $@ ./cmd/hive-test

.PHONY: checked
checked: build ensure-tofu bin/checked/hive-test
	@ln -f bin/hive-sim bin/hive-sim-hive $(CHECKED)/
	@test ! -e bin/tofu || ln -f bin/tofu $(CHECKED)/
	@rm -rf $(COVERED) && mkdir -p $(COVERED)

# Compilers, tests and the programs that scripts start by the thousand end before they need much memory: collecting garbage
# less often saves a tenth to a quarter of their time. Nor do they vet, for make lint does with more checks, and test programs are
# linked without what only debuggers read, which is a third of the linker's work.
QUICK := -vet=off -ldflags=-w
checked test test-short scripts coverage: export GOGC ?= 400

.PHONY: test
test: build ensure-tofu ## all tests but those that take long, with the race detector; skipped ones are counted and say why
	HIVE_TEST_BIN_DIR=$(CURDIR)/bin $(GO) run $(GOTESTSUM) --format pkgname $(RERUN) --packages="$(PACKAGES)" -- \
		-race $(QUICK) -parallel $(PARALLEL) -timeout 80m

.PHONY: scripts
scripts: checked ## all scripts, those too that take long, of a program with the race detector; writes down what they cover
	HIVE_TEST_BIN_DIR=$(CURDIR)/$(CHECKED) HIVE_TEST_COVER_DIR=$(CURDIR)/$(COVERED) HIVE_TEST_SOAK=yes \
		$(GO) test -race $(QUICK) -count=1 -parallel $(PARALLEL) -timeout 2h -run '^TestScripts' ./cmd/hive-test

LEAST_COVERED := 60
# The others' tests run the test program as a service of a node. One that is instrumented complains there of its empty environment.
COVERABLE = $(shell $(GO) list ./pkg/... | grep -Ev '/pkg/(sim|hive|remote|process|deploy/deploytest)(/|$$)')

.PHONY: coverage
coverage: ## what the last `make scripts` and the unit tests cover of each package of the product
	HIVE_TEST_BIN_DIR=$(CURDIR)/$(CHECKED) $(GO) test -race -cover -count=1 $(COVERABLE) -args -test.gocoverdir=$(CURDIR)/$(COVERED) >/dev/null
	@$(GO) tool covdata percent -i=$(COVERED) | grep 'hive-test/pkg/' | grep -Ev '/pkg/(sim/|deploy/deploytest)' | sort | \
		awk '{ print $$1, $$3; sub("%", "", $$3); if ($$3 + 0 < $(LEAST_COVERED)) { low = low " " $$1 } } \
		END { if (low) { print "less than $(LEAST_COVERED)% covered:" low; exit 1 } }'

.PHONY: test-short
test-short: ## the quick tests, for while you edit: no scripts, no OpenTofu, no race detector
	$(GO) run $(GOTESTSUM) --format pkgname --packages="$(PACKAGES)" -- -short $(QUICK) -timeout 5m

.PHONY: test-provider
test-provider: build ensure-tofu ## the scripts with the real provider: make test-provider PROVIDER_MIRROR=DIR
	@if [ -z "$(PROVIDER_MIRROR)" ]; then echo "skipped: no PROVIDER_MIRROR=DIR with bpg/proxmox is given"; else \
	HIVE_TEST_BIN_DIR=$(CURDIR)/bin HIVE_TEST_SOAK=yes HIVE_TEST_PROVIDER_MIRROR="$(abspath $(PROVIDER_MIRROR))" $(GO) test -count=1 -timeout 30m -run '^TestScripts' ./cmd/hive-test; fi

.PHONY: test-tofu
test-tofu: build ensure-tofu ## all scripts with OpenTofu, those too that are not about it
	HIVE_TEST_BIN_DIR=$(CURDIR)/bin HIVE_TEST_DEPLOYER=proxmox HIVE_TEST_SOAK=yes $(GO) test -count=1 -parallel $(PARALLEL) -timeout 80m -run '^TestScripts' ./cmd/hive-test

VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0

.PHONY: test-s3
test-s3: build ensure-tofu ## the state server on a real S3 server, which is built from the Go module proxy
	@dir=$$(mktemp -d) && mkdir -p $$dir/data/states && GOBIN=$$dir $(GO) install $(VERSITYGW) || exit 1; \
	$$dir/versitygw --quiet --access AKIATEST --secret canary-of-s3 --port 127.0.0.1:$(S3_PORT) posix $$dir/data & server=$$!; \
	trap 'kill $$server; rm -rf $$dir' EXIT; \
	until (exec 3<>/dev/tcp/127.0.0.1/$(S3_PORT)) 2>/dev/null; do kill -0 $$server || exit 1; sleep 0.1; done; \
	export HIVE_TEST_S3='s3://states?endpoint=http://127.0.0.1:$(S3_PORT)' AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=canary-of-s3 \
		HIVE_TEST_BIN_DIR=$(CURDIR)/bin HIVE_TEST_SOAK=yes; \
	$(GO) test -count=1 -timeout 30m -run 'TestAnyServer|TestKilledStateServers' ./pkg/stateserver/s3store ./cmd/hive-test && \
	$(GO) test -count=1 -timeout 30m -run 'TestSharedBackends/(s3|state_serve_on_S3)$$' ./cmd/hive-test

S3_PORT ?= 7070
MOMENTS ?= 100

.PHONY: crash
crash: build ensure-tofu ## the whole crash matrix and fault matrix: takes three quarters of an hour on 2 cores
	HIVE_TEST_BIN_DIR=$(CURDIR)/bin HIVE_TEST_CRASH=$(MOMENTS) $(GO) test -count=1 -v -parallel 8 -timeout 4h -run '^(TestCrash|TestFaults)$$' ./cmd/hive-test

.PHONY: soak
soak: crash scripts test-s3 ## crash, all scripts, and all tests that take long; packages one by one, for some measure times
	HIVE_TEST_BIN_DIR=$(CURDIR)/bin HIVE_TEST_SOAK=yes $(GO) test -count=1 -p 1 -timeout 2h -skip '^TestScripts' ./...
	cd testdata/awssdk && $(GO) test -count=1 ./...

.PHONY: bench
bench: build ensure-tofu ## measure speed as ratios within one run
	HIVE_TEST_BIN_DIR=$(CURDIR)/bin $(GO) test -v -run "^$$" -bench . -benchtime 1x -timeout 45m ./cmd/hive-test ./pkg/report ./pkg/gateway

DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.43.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint# of go.mod, for tests read expressions with it, too

.PHONY: lint
# As `make build` compiles: nothing is compiled twice.
lint: export CGO_ENABLED := 0
lint: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
lint: ## vet, staticcheck, dead code, gofumpt, actionlint, go mod tidy: all leave nothing
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@dead=$$($(GO) run $(DEADCODE) -test ./...) && test -z "$$dead" || { echo "$$dead"; exit 1; }
	@unformatted=$$($(GO) run $(GOFUMPT) -l cmd pkg tofu cloudinit) && test -z "$$unformatted" || { echo "$$unformatted"; exit 1; }
	@command -v shellcheck >/dev/null || echo "shellcheck is not installed: the scripts of workflows are not checked by it"
	$(GO) run $(ACTIONLINT)
	$(GO) mod tidy -diff

.PHONY: clean
clean: ## remove what was built, and stop the simulator of ./clusters
	-@test -x bin/hive-sim && bin/hive-sim pve stop --clusters-dir clusters --wipe 2>/dev/null
	rm -rf bin
