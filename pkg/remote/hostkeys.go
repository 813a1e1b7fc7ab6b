package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// HostKeyError means that a node shows another host key than the one pinned for it. It is never transient: either the
// machine at that address is another one, or someone is in between.
type HostKeyError struct {
	Node    string
	Address string
	Path    string   // the known_hosts file
	Want    []string // fingerprints of the pinned keys
	Got     string   // fingerprint of the key shown
}

func (e *HostKeyError) Error() string { return e.Node + ": " + e.Unnamed() }

func (e *HostKeyError) Unnamed() string {
	return fmt.Sprintf("the host key of %s has changed: it shows %s, while %s has %s",
		e.Address, e.Got, e.Path, strings.Join(e.Want, ", "))
}

func (e *HostKeyError) Hint() string {
	return fmt.Sprintf("if the machine was made anew on purpose, forget its key: ssh-keygen -f %s -R %s; if not, do not go on: find out what answers at %s",
		Quote(e.Path), Quote(knownhosts.Normalize(e.Address)), e.Address)
}

func (e *HostKeyError) Code() string     { return "host-key-changed" }
func (e *HostKeyError) NodeName() string { return e.Node }

// ErrKnownHosts means that the known_hosts file of the cluster cannot be read, parsed or written.
var ErrKnownHosts = errors.New("the cluster's known_hosts file is not usable")

// hostKeys is the known_hosts file of one cluster. Writers take turns, in this process by mu and among processes by a
// lock file; the file is replaced as a whole, so readers need no lock.
type hostKeys struct {
	path string
	mu   sync.Mutex
}

// Pin names the host keys of a node, as lines (as in /etc/ssh/ssh_host_*_key.pub or authorized_keys).
type Pin struct {
	Node  cluster.Node
	Lines []string
}

// PinHostKeys makes the named keys the only host keys accepted from their nodes, in the known_hosts file at path (mode
// 0600, made where missing), which is written once. It is for keys that were read over a channel that is itself
// verified. A node whose keys cannot be used does not keep the others; the errors are joined in order. Safe for
// concurrent use, among processes too.
func PinHostKeys(path string, pins ...Pin) error {
	var failures []error
	type pinned struct{ addr, lines string }
	var good []pinned
	for _, pin := range pins {
		addr, lines, err := pin.lines()
		if err != nil {
			failures = append(failures, &nodeError{pin.Node.Name, err})
			continue
		}
		good = append(good, pinned{addr, lines})
	}
	if len(good) == 0 {
		return errors.Join(failures...)
	}
	err := (&hostKeys{path: path}).update(func(text []byte) []byte {
		for _, p := range good {
			text = append(withoutAddress(text, p.addr), p.lines...)
		}
		return text
	})
	return errors.Join(append(failures, err)...)
}

// lines are the address of the node and its lines of a known_hosts file.
func (p Pin) lines() (addr, text string, err error) {
	if addr, err = address(p.Node); err != nil {
		return "", "", fmt.Errorf("pinning its host keys: %w", err)
	}
	for _, line := range p.Lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return "", "", fmt.Errorf("its host key %q is not an SSH public key: %w", progress.Clip(printable(line), 40), err)
		}
		text += knownhosts.Line([]string{addr}, key) + "\n"
	}
	if text == "" {
		return "", "", errors.New("no host key was given to be pinned")
	}
	return addr, text, nil
}

// ForgetHostKeys removes what the known_hosts file at path holds for nodes: their next keys are taken on first contact.
// For machines that were made anew on purpose. A node without an address never had any.
func ForgetHostKeys(path string, nodes ...cluster.Node) error {
	var addrs []string
	for _, node := range nodes {
		if addr, err := address(node); err == nil {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return nil
	}
	return (&hostKeys{path: path}).update(func(text []byte) []byte {
		for _, addr := range addrs {
			text = withoutAddress(text, addr)
		}
		return text
	})
}

// PinnedKeys are the host keys that the known_hosts file at path holds for node, as its lines name them; empty: none.
// What is no known_hosts file holds none.
func PinnedKeys(path string, node cluster.Node) string {
	addr, err := address(node)
	text, readErr := os.ReadFile(path)
	if err != nil || readErr != nil {
		return ""
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		if hosts, key, found := strings.Cut(strings.TrimSpace(line), " "); found &&
			hosts == knownhosts.Normalize(addr) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, "\n")
}

// Move is a node at another address than before.
type Move struct{ From, To cluster.Node }

// MoveHostKeys makes what the known_hosts file at path holds for nodes hold at the addresses that they have now, all at
// once, so that nodes may have changed places. No key is learnt by it: a node that shows another one is refused as
// before. What the file held for the new address of a node, when another machine had it, is dropped.
func MoveHostKeys(path string, moves []Move) error {
	names, taken := map[string]string{}, map[string]bool{}
	for _, m := range moves {
		from, fromErr := address(m.From)
		to, toErr := address(m.To)
		if err := errors.Join(fromErr, toErr); err != nil {
			return &nodeError{m.To.Name, fmt.Errorf("moving its host keys: %w", err)}
		}
		if from != to {
			names[knownhosts.Normalize(from)] = knownhosts.Normalize(to)
		}
	}
	return (&hostKeys{path: path}).update(func(text []byte) []byte {
		for line := range bytes.Lines(text) {
			if host, _, _ := strings.Cut(string(line), " "); names[host] != "" {
				taken[names[host]] = true
			}
		}
		var kept []byte
		for line := range bytes.Lines(text) {
			host, key, _ := strings.Cut(string(line), " ")
			switch {
			case names[host] != "":
				kept = append(kept, names[host]+" "+key...)
			case !taken[host]:
				kept = append(kept, line...)
			}
		}
		return kept
	})
}

// withoutAddress drops the lines about addr. The file holds only lines of this package's making: one address, no
// hashes.
func withoutAddress(text []byte, addr string) []byte {
	var kept []byte
	name := knownhosts.Normalize(addr)
	for line := range bytes.Lines(text) {
		if host, _, _ := strings.Cut(string(line), " "); host != name {
			kept = append(kept, line...)
		}
	}
	return kept
}

// load reads the file; a missing one is empty.
func (k *hostKeys) load() (*knownhosts.HostKeyDB, error) {
	db, err := knownhosts.NewDB(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return knownhosts.NewDB()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w: mend or remove it", ErrKnownHosts, k.path, err)
	}
	return db, nil
}

// check accepts a key that known holds, writes the key of a first contact, and refuses any other.
func (k *hostKeys) check(known *knownhosts.HostKeyDB, node, addr string, remote net.Addr, key ssh.PublicKey) error {
	err := k.verify(known, node, addr, remote, key)
	if !knownhosts.IsHostUnknown(err) {
		return err
	}
	var verdict error
	updateErr := k.update(func(text []byte) []byte {
		// Another connection, or another process, may have written a key since.
		db, err := k.load()
		if err != nil {
			verdict = err
			return text
		}
		if verdict = k.verify(db, node, addr, remote, key); !knownhosts.IsHostUnknown(verdict) {
			return text
		}
		verdict = nil
		return append(text, knownhosts.Line([]string{addr}, key)+"\n"...)
	})
	return errors.Join(verdict, updateErr)
}

func (k *hostKeys) verify(db *knownhosts.HostKeyDB, node, addr string, remote net.Addr, key ssh.PublicKey) error {
	err := db.HostKeyCallback()(addr, remote, key)
	changed, ok := errors.AsType[*xknownhosts.KeyError](err)
	if !ok || len(changed.Want) == 0 {
		return err
	}
	e := &HostKeyError{Node: node, Address: addr, Path: k.path, Got: fingerprint(key)}
	for _, want := range changed.Want {
		e.Want = append(e.Want, fingerprint(want.Key))
	}
	return e
}

func fingerprint(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// algorithms are those of the keys that known has for addr, then all others: a host that has replaced its key by one of
// another kind is then told apart from one that has no common algorithm. None are known: none are preferred.
func algorithms(known *knownhosts.HostKeyDB, addr string) []string {
	preferred := known.HostKeyAlgorithms(addr)
	if len(preferred) == 0 {
		return nil
	}
	slices.SortStableFunc(preferred, func(a, b string) int { return cost(a) - cost(b) })
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if !slices.Contains(preferred, a) {
			preferred = append(preferred, a)
		}
	}
	return preferred
}

// cost orders host keys by what a signature of theirs costs the server: one of RSA is the work of dozens of the others.
func cost(algorithm string) int {
	if strings.Contains(algorithm, "rsa") {
		return 1
	}
	return 0
}

// lockWait is how long other writers of the file may take, each of which takes a moment.
const lockWait = 10 * time.Second

// update replaces the file by what change makes of it, one writer at a time.
func (k *hostKeys) update(change func([]byte) []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrKnownHosts, err)
	}
	lock := flock.New(k.path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return fmt.Errorf("%w: locking %s: %w", ErrKnownHosts, k.path, err)
	}
	defer func() { _ = lock.Close() }()
	text, err := os.ReadFile(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrKnownHosts, err)
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	changed := change(bytes.Clone(text))
	if bytes.Equal(text, changed) && err == nil {
		return nil
	}
	if err := renameio.WriteFile(k.path, changed, 0o600, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("%w: writing %s: %w", ErrKnownHosts, k.path, err)
	}
	return nil
}
