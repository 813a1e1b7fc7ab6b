package explain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"hive-test/pkg/progress"
)

// samples are what each kind of failure looks like, in the words of hive, Proxmox VE, the provider or this program.
func samples() []struct{ id, phase, text string } {
	return []struct{ id, phase, text string }{
		{"state-no-credentials", "", "reading the clusters in the backend http: tofu init failed: Error refreshing state HTTP remote state endpoint requires auth"},
		{"state-no-credentials", "", "reading what is shared of cluster \"a\" in the backend s3: tofu init failed: failed to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata"},
		{"state-no-credentials", "", "in the backend pg: tofu init failed: fe_sendauth: no password supplied"},
		{"state-forbidden", "", "tofu state pull failed: Failed to refresh state: HTTP remote state endpoint invalid auth"},
		{"state-forbidden", "", "Failed to get existing workspaces: operation error S3: ListObjectsV2, https response error StatusCode: 403, RequestID: , HostID: , api error InvalidAccessKeyId: nokey"},
		{"state-forbidden", "", "Error refreshing state operation error S3: HeadObject, https response error StatusCode: 403, RequestID: , HostID: , api error Forbidden: Forbidden"},
		{"state-forbidden", "up", "pq: password authentication failed for user \"hive\""},
		{"state-locked", "up", "tofu apply failed: Error acquiring the state lock Error message: HTTP remote state already locked: ID=1234"},
		{"state-checksum", "up", "operation error S3: PutObject, https response error StatusCode: 501, RequestID: , HostID: , api error NotImplemented: Header 'x-amz-checksum-algorithm' with value 'CRC32' not implemented"},
		{"state-checksum", "up", "api error XAmzContentSHA256Mismatch: The provided 'x-amz-content-sha256' header does not match"},
		{"state-tls", "", "Failed to refresh state: Failed to get state: GET https://states.example/state/a giving up after 1 attempt(s): Get \"https://states.example/state/a\": tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"state-passphrase", "", "Error refreshing state decryption failed for all provided methods: attempted decryption failed for state"},
		{"state-unavailable", "", "Failed to refresh state: Failed to get state: GET http://127.0.0.1:1/state/a giving up after 3 attempt(s): Get \"http://127.0.0.1:1/state/a\": dial tcp 127.0.0.1:1: connect: connection refused"},
		{"state-unavailable", "up", "Failed to save state: Failed to upload state: POST http://states.example/state/a giving up after 3 attempt(s)"},
		{"state-unavailable", "up", "operation error S3: PutObject, https response error StatusCode: 503, RequestID: , HostID: , api error SlowDown: reduce your request rate"},
		{"state-unavailable", "", "listing the clusters in the backend pg: tofu init failed: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"pve-download-forbidden", "up", "error retrieving URL metadata: HTTP 403 from query-url-metadata: Permission check failed (/, Sys.Audit)"},
		{"clock-skew", "test", "DescribeInstanceTypes: 403 SignatureDoesNotMatch: the request signature does not match"},
		{"wrong-access-key", "test", "DescribeRegions: 403 InvalidClientTokenId"},
		{"wrong-access-key", "configure", "ListBuckets: 403 InvalidAccessKeyId"},
		{"node-gone", "test", "ci-2 is lost since 12:00:00: its VM is gone"},
		{"node-lost", "configure", "ci-2: its VM is stopped; the SSH connection was lost"},
		{"node-ssh-silent", "configure", "installing hive failed: starting state.sh: connecting to its SSH server: dial tcp 10.0.0.5:22: connect: no route to host"},
		{"node-ssh-silent", "test", "a node was lost: ci-2 since 12:00:00, for longer than 2m (--lost-after): its VM runs, but neither hive's daemon nor its SSH server answer"},
		{"gateway-base-dir", "configure", "Error starting awsgw service: load IAM master key from /home/tf-user/hive/config/config/master.key: open /home/tf-user/hive/config/config/master.key: no such file or directory"},
		{"gateway-seed-race", "configure", "Error starting awsgw service: seed bootstrap from bootstrap.json: seed root access key: nats: wrong last sequence: 1"},
		{"wrong-environment", "configure", "[FTL] Error listening on port: [0.0.0.0:9999]:4222, nats: lookup 0.0.0.0:9999"},
		{"wrong-environment", "configure", "Starting predastore service...\nBase path is not set\n"},
		{"wrong-environment", "configure", "Config file is not set"},
		{"service-ended", "test", "ci-2: its predastore is dead: its process is gone"},
		{"service-ended", "test", "ci-2: all its services are dead: their processes are gone"},
		{"service-ended", "configure", "ci-2: its gateway (awsgw) is dead: its process is gone"},
		{"service-silent", "configure", "ci-2: its nats is silent: nothing accepts connections at 10.0.0.5:4222"},
		{"state-not-written", "configure", "ERROR Failed to write state err=failed to write state to JetStream: nats: timeout"},
		{"dhcp-without-vpcd", "configure", `level=WARN msg="dhcp acquire NATS request failed, retrying" attempt=3 maxAttempts=60`},
		{"wan-bridge", "configure", "ERROR: WAN interface 'eth0' (default route) is a physical NIC. Cannot auto-create a bridge."},
		{"profile-missing", "test", "The config profile (hive) could not be found"},
		{"shell-of-suite", "test", "sh: 1: Bad substitution"},
		{"health-behind-sudo", "configure", "the daemon does not answer: no answer within 4s"},
		{"daemon-starting", "configure", `waiting for health failed on ci-2: the daemon says "starting"`},
		{"formation-on-port", "configure", "/health answers 404: another program holds the port, such as the formation server of an unfinished init"},
		{"daemon-silent", "configure", "the daemon does not answer: dial tcp 10.0.0.5:4432: connect: connection refused"},
		{"peers-missing", "configure", "it sees 1 of 2 peers"},
		{"formation-timeout", "configure", "Error: formation timed out after 10m0s: 2/3 nodes joined"},
		{"already-registered", "configure", "Error: Failed to join cluster: node ci-2 is already registered"},
		{"port-in-use", "configure", "listen tcp 10.0.0.5:4432: bind: address already in use"},
		{"formation-closed", "configure", "panic: close of closed channel"},
		{"formation-closed", "configure", `Error: Failed to join cluster: Post "http://10.0.0.5:4432/formation/join": EOF`},
		{"join-refused", "configure", `Error: Failed to join cluster: Post "http://10.0.0.5:4432/formation/join": dial tcp 10.0.0.5:4432: connect: connection refused`},
		{"join-met-daemon", "configure", "Error parsing join response: invalid character 'p' after top-level value"},
		{"join-token", "configure", "Error: Failed to join cluster: unauthorized: invalid join token"},
		{"join-token", "configure", `Error: required flag(s) "token" not set`},
		{"http-https", "configure", "400 Client sent an HTTP request to an HTTPS server."},
		{"versions-differ", "configure", "nodes have different versions of hive: ci-1 v0.4.0, ci-2 v0.5.1"},
		{"bind-address", "configure", "listen tcp 10.9.9.9:4432: bind: cannot assign requested address"},
		{"ovn-missing", "configure", "Error: OVN bridge br-int does not exist"},
		{"ovn-missing", "configure", "start-dev.sh: line 80: ovs-vsctl: command not found"},
		{"node-too-small", "configure", "host has 2 CPUs, hive needs at least 3 vCPUs"},
		{"cluster-ca-unknown", "configure", "predastore: tls: failed to verify certificate: x509: unknown authority"},
		{"api-ca-unknown", "up", "tls: x509: certificate signed by unknown authority"},
		{"certificate-time", "up", "x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:00Z"},
		{"sibling-modules", "configure", "main.go:9:2: no required module provides package github.com/mulgadc/predastore/auth"},
		{"build-tools", "configure", "bash: line 12: make: command not found"},
		{"no-name-service", "configure", "Err:1 http://deb.example/debian bookworm InRelease Temporary failure resolving 'deb.example'"},
		{"repository-refused", "configure", "fatal: could not read Username for 'https://git.example': terminal prompts disabled"},
		{"wrong-architecture", "configure", "bash: /home/tf-user/hive/bin/hive: cannot execute binary file: Exec format error"},
		{"old-libc", "configure", "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by hive)"},
		{"dpkg-lock", "configure", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)"},
		{"cloud-init-error", "configure", "status: error\ndetail:\n('runcmd', 1)"},
		{"cloud-init-no-dns", "configure", "InvalidCommand: Command missing {'address'}"},
		{"out-of-memory", "test", "kernel: Out of memory: Killed process 2101 (hive) total-vm:4194304kB"},
		{"no-kvm", "test", "qemu-system-x86_64: Could not access KVM kernel module: No such file or directory"},
		{"hive-without-ipv6", "configure", "[FTL] Error listening on port: fd00::2:4222, listen tcp: address fd00::2:4222: too many colons in address"},
		{"node-disk-full", "configure", "write /home/tf-user/hive/data: no space left on device"},
		{"storage-full", "up", "task failed: lvcreate: insufficient free space in volume group"},
		{"disk-full", "up", "write terraform.tfstate: no space left on device"},
		{"disk-full", "configure", "saving cluster \"a\": write /clusters/a/.cluster.json123: no space left on device"},
		{"disk-full", "up", "mkdir /srv/a/.terraform/providers: no space left on device"},
		{"disk-full", "test", "writing the CA certificates: write /srv/a/suite/ca-bundle.pem: no space left on device"},
		{"storage-full", "up", "lvcreate 'pve/vm-20000-disk-0' error:   Cannot create new thin volume, free space in thin pool pve/data reached threshold."},
		{"storage-full", "up", "lvcreate 'pve/vm-20000-disk-0' error:   Volume group \"pve\" has insufficient free space (511 extents): 8192 required."},
		{"storage-full", "up", "zfs error: cannot create 'rpool/data/vm-20000-disk-0': out of space"},
		{"storage-full", "up", "zfs error: cannot set property for 'rpool/data/vm-20000-disk-0': size is greater than available space"},
		{"storage-full", "up", "qemu-img: error while writing at byte 2147483136: Disk quota exceeded"},
		{"vm-io-error", "test", "ci-2 has qmpstatus: io-error"},
		{"tag-reserved", "up", "POST /nodes/pve1/qemu: 403 Permission check failed (/, Sys.Modify for modifying tag 'hive-test')"},
		{"privilege-missing", "up", "received an HTTP 403 response - Reason: Permission check failed"},
		{"proxy-in-front", "up", "GET /version: 502 Bad Gateway"},
		{"proxy-in-front", "up", "error listing files from datastore local: received an HTTP 502 response - Reason: Bad Gateway"},
		{"proxy-in-front", "down", "GET /cluster/resources: 504 Gateway Time-out"},
		{"efi-certificates", "up", "WARN: EFI disk without 'ms-cert=2023k' option, suggesting that not all UEFI 2023"},
		{"task-warnings", "up", "failed to complete with exit code: WARNINGS: 1"},
		{"out-of-memory", "test", "systemd[1]: hive.service: Failed with result 'oom-kill'."},
		{"out-of-memory", "test", "kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=hive,pid=2101,uid=1000"},
		{"out-of-memory", "test", "kernel: Memory cgroup out of memory: Killed process 2101 (hive) total-vm:4194304kB"},
		{"out-of-memory", "test", "kernel: awsgw invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0"},
		{"token-refused", "up", "GET /version: 401 Authentication failed!"},
		{"token-refused", "up", "HTTP 401 invalid token value!"},
		{"privilege-missing", "up", "POST /nodes/pve1/qemu: 403 Permission check failed (/vms/20000, VM.Allocate)"},
		{"hypervisor-unreachable", "up", "GET /nodes/pve2/qemu/20001/config: 595 No route to host"},
		{"no-quorum", "up", "create VM: HTTP 500 cluster not ready - no quorum?"},
		{"no-quorum", "down", "task qmdestroy of VM 20001 on pve1 failed: unable to open file '/etc/pve/nodes/pve1/qemu-server/20001.conf.tmp.77' - Permission denied"},
		{"file-lock", "up", "can't lock file '/var/lock/qemu-server/lock-20001.conf' - got timeout"},
		{"storage-lock", "up", "create pool failed: cfs-lock 'file-user_cfg' error: got lock request timeout"},
		{"vm-locked", "down", "task qmdestroy of VM 20001 on pve1 failed: VM is locked (backup)"},
		{"id-taken", "up", "unable to create VM 20001 - VM 20001 already exists on node 'pve1'"},
		{"id-taken", "up", "unable to create VM 20001: config file already exists"},
		{"no-worker", "up", "HTTP 500 got no worker upid - start worker failed"},
		{"agent-silent", "up", "GET /nodes/pve1/qemu/20001/agent/network-get-interfaces: 500 QEMU guest agent is not running"},
		{"agent-frozen", "up", "Command guest-network-get-interfaces has been disabled: the agent is in frozen state"},
		{"snippets-off", "up", `failed to read file from "local:snippets/hive-test-ci.yaml"`},
		{"image-missing", "up", "/var/lib/vz/template/iso/debian.img: non-existent or non-regular file"},
		{"bridge-missing", "up", "bridge 'vmbr9' does not exist"},
		{"same-machine-id", "up", "ci-1 and ci-2 both report address 10.0.0.5: the template's machine-id was not cleared"},
		{"template-elsewhere", "up", "can't clone to non-shared storage 'local-lvm'"},
		{"vm-protected", "down", "can't remove VM 20001 - protection mode enabled"},
		{"vm-still-running", "down", "VM 20001 is running - destroy failed"},
		{"changed-by-other", "up", "checksum mismatch (file change by other user?)"},
		{"hypervisor-host-key", "up", "ssh: handshake failed: knownhosts: key mismatch"},
		{"hypervisor-ssh-login", "up", `unable to authenticate user "root" over SSH to "pve1:22"`},
		{"node-ssh-refused", "configure", "ci-2: the node refused the SSH login as user tf-user"},
		{"node-ssh-silent", "configure", "ci-2: no command could be run over SSH within 10m: timed out; the last try: connecting to its SSH server: dial tcp 10.0.0.5:22: i/o timeout"},
		{"sudo-refused", "up", "sudo: a password is required"},
		{"provider-crashed", "up", "Error: Plugin did not respond"},
		{"tofu-killed", "up", "tofu apply failed: signal: killed"},
		{"provider-missing", "up", "Error: Failed to query available provider packages"},
		{"no-test-ran", "test", "tests failed: no test ran"},
		{"suite-not-found", "test", "exited with 127: sh: 1: ./e2e.sh: not found"},
		{"suite-not-executable", "test", "exited with 126: bash: line 1: ./e2e.sh: Permission denied"},
		{"suite-killed", "test", "ended by signal KILL"},
		{"time-up", "configure", "timed out after 28m30s (--timeout-configure=30m, the rest is for stopping): waiting for health"},
	}
}

func TestEachSampleMatchesItsSignatureAndNoOther(t *testing.T) {
	signatures, err := Signatures()
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, sample := range samples() {
		covered[sample.id] = true
		var matching []string
		for _, s := range signatures {
			if s.applies(&failure{phase: sample.phase}) && s.find(sample.text) >= 0 {
				matching = append(matching, s.ID)
			}
		}
		particular := sample.id == "disk-full" // the others are of any disk
		if len(matching) == 0 || matching[0] != sample.id || len(matching) > 1 && !particular {
			t.Errorf("%s, %q: got %v", sample.id, sample.text, matching)
		}
	}
	for _, s := range signatures {
		if !covered[s.ID] {
			t.Errorf("signature %s has no sample", s.ID)
		}
	}
	if len(signatures) < 25 {
		t.Errorf("there are only %d signatures", len(signatures))
	}
}

func TestSignaturesAreWhole(t *testing.T) {
	signatures, err := Signatures()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	left := regexp.MustCompile(`\{[^}]*\}`)
	for _, s := range signatures {
		if seen[s.ID] || s.ID == "" || s.Cause == "" || s.Next == "" && s.ID != "time-up" || len(s.Patterns) == 0 {
			t.Errorf("signature %q is there twice, or lacks something", s.ID)
		}
		seen[s.ID] = true
		for _, p := range s.Phases {
			if !strings.Contains(" up configure test down ", " "+p+" ") {
				t.Errorf("signature %s: there is no phase %s", s.ID, p)
			}
		}
		for _, where := range s.Where {
			if where != InError && where != InOutput && where != InFiles {
				t.Errorf("signature %s: there is no place %s", s.ID, where)
			}
		}
		texts := []string{s.Cause, s.Next}
		if s.Hosts != nil {
			texts = append(texts, s.Hosts.Cause, s.Hosts.Next)
		}
		for _, text := range texts {
			if found := left.FindString(fill(text, "ci", "ci-1")); found != "" {
				t.Errorf("signature %s: %s stands for nothing", s.ID, found)
			}
		}
	}
}

// What a healthy node and its VM tell explains no failure, wherever it stands. Debian's files are of real systems that were started
// with systemd and cloud-init; the kernels' lines, hive's and Proxmox VE's are written after theirs.
func TestHealthyEvidenceMatchesNothing(t *testing.T) {
	signatures, err := Signatures()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	err = filepath.WalkDir(filepath.Join("testdata", "healthy"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := string(raw)
		for _, s := range signatures {
			if at := s.find(text); at >= 0 {
				t.Errorf("%s: %s matches %q", file, s.ID, lineAt(text, at))
			}
		}
		count++
		return nil
	})
	if err != nil || count < 10 {
		t.Errorf("%d files, %v", count, err)
	}
}

// Hosts that were there before have no VM, no hypervisor and no size that hive-test could change.
func TestAdviceFitsHostsThatWereThereBefore(t *testing.T) {
	signatures, err := Signatures()
	if err != nil {
		t.Fatal(err)
	}
	odd := regexp.MustCompile(`--memory-mb|--cpu-cores|--disk-size-gb|--allow-|--keep|\bVMs?\b|Proxmox|[Hh]ypervisor|/pve/|[Tt]emplate|\bimages?\b|\bqm\b|pvecm|PVE`)
	for _, sample := range samples() {
		f := &failure{name: "lab", phase: sample.phase, hosts: true}
		s := match(signatures, InError, f, sample.text)
		if s == nil || s.Only == "proxmox" {
			continue
		}
		x := &progress.Explanation{Node: "host-1"}
		f.take(x, s)
		if found := odd.FindString(x.Cause + "\n" + x.Next); found != "" || x.Next == "" && s.Next != "" {
			t.Errorf("%s speaks of %q: %s; %s", s.ID, found, x.Cause, x.Next)
		}
	}
	for id, phase := range map[string]string{"token-refused": "up", "node-gone": "configure"} {
		for _, sample := range samples() {
			if sample.id == id && match(signatures, InError, &failure{phase: phase, hosts: true}, sample.text) != nil {
				t.Errorf("%s explains a cluster of hosts", id)
			}
		}
	}
}

// What a log keeps of a fault that was healed explains nothing that says nothing of it.
func TestHealedFaultsInLogsExplainNothing(t *testing.T) {
	files := fstest.MapFS{
		"nodes/ci-1/logs/awsgw.log": {Data: []byte("Error starting awsgw service: seed bootstrap from bootstrap.json: seed root access key: nats: wrong last sequence: 1\nlistening on 0.0.0.0:9999\n")},
		"nodes/ci-1/logs/hive.log":  {Data: []byte("ERROR Failed to write state err=failed to write state to JetStream: nats: timeout\n")},
	}
	for text, want := range map[string]string{
		"tests failed: 1 of 2, first e2e.sh: e2e.sh": "",
		"its gateway (awsgw) answers nothing":        "gateway-seed-race",
	} {
		f := &failure{name: "ci", phase: "test", text: text}
		signatures, err := Signatures()
		if err != nil {
			t.Fatal(err)
		}
		x := &progress.Explanation{}
		f.judge(x, signatures, files)
		if x.Signature != want {
			t.Errorf("%q: got %q, want %q", text, x.Signature, want)
		}
	}
}

// That a service has ended is the least of what its log tells.
func TestWhyAServiceEndedComesBeforeThatItDid(t *testing.T) {
	signatures, err := Signatures()
	if err != nil {
		t.Fatal(err)
	}
	const ended = "services of hive have ended on ci-1\n  ci-1: the daemon does not answer: dial tcp 10.0.0.5:4432: connect: connection refused; " +
		"its daemon (spinifex) is dead: its process is gone\n    | "
	for log, want := range map[string]string{
		"host has 2 CPUs, hive needs at least 3 vCPUs":                     "node-too-small",
		"predastore: tls: failed to verify certificate":                    "cluster-ca-unknown",
		"seed bootstrap from bootstrap.json: nats: wrong last sequence: 3": "gateway-seed-race",
		"Base path is not set":                                             "wrong-environment",
		"2026/11/28 12:00:00 INFO Shutdown complete":                       "service-ended",
	} {
		if got := match(signatures, InError, &failure{phase: "configure", step: "health"}, ended+log); got == nil || got.ID != want {
			t.Errorf("%q: %+v, want %s", log, got, want)
		}
	}
}

// Hosts have names of any kind, and advice names the one that failed.
func TestTheHostThatFailed(t *testing.T) {
	err := progress.WithNodes(errors.New("db.example: connecting to its SSH server: connection refused"), "db.example")
	end := progress.Event{Kind: progress.PhaseEnd, Cluster: "pre", Phase: "up", Status: progress.Failed}
	f := read([]progress.Event{end.WithError(err)})
	if f.node != "db.example" {
		t.Errorf("got %q", f.node)
	}
	if got := fill("ssh {host}; nodes/{node}/logs", "pre", ""); got != "ssh NODE; nodes/*/logs" {
		t.Error(got)
	}
}
