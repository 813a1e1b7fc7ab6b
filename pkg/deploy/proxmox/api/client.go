// Package api is all that is said to a Proxmox VE API outside tofu: reading what is there, checks before a cluster
// is made, choosing ids, MACs and hypervisors, addresses from guest agents, stopping and deleting.
//
// It stands on go-proxmox and makes three of its habits safe: every answer of status 300 or above is an error with
// PVE's own text (go-proxmox takes 404 and 595 for success), a task counts as done only if its exit status is OK, and
// every wait is bounded by the caller's context. TLS is always verified unless that is switched off by choice.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	pve "github.com/luthermonson/go-proxmox"

	"hive-test/pkg/progress"
)

// DefaultTimeout bounds one request. A node whose network is down is answered for by its neighbour after 30 s
// (observed on PVE 8.4), so it is a little more than that.
const DefaultTimeout = 40 * time.Second

// Options say which API is talked to and as whom.
type Options struct {
	// https URL of any node, such as https://pve1:8006; /api2/json may follow, and no other path
	Endpoint    string
	Token       string        // user@realm!name=secret
	CAFile      string        // PEM file of the CA that signed the server's certificate; empty: the system's roots
	Fingerprint string        // SHA-256 of the server's certificate in hex, colons optional; replaces CA verification
	Insecure    bool          // accept any certificate
	Timeout     time.Duration // of one request; 0 means DefaultTimeout
	Log         *slog.Logger  // gets a debug record of each request: method, path, status, ms; nil: none
	// hears of each task that went well with warnings, once; called concurrently; nil: nobody does
	Warn func(string)
}

// Client talks to one Proxmox VE API. All methods are safe for concurrent use and end with their context.
type Client struct {
	api      *pve.Client
	endpoint string
	tokenID  string
	timeout  time.Duration
	http     *http.Client
	clock    *clock
	log      *slog.Logger
	warn     func(string)

	mu       sync.Mutex
	reported map[string]bool // tasks that warn was told of
}

var _ API = (*Client)(nil)

// tokenPattern is what PVE takes for user@realm!name=secret: the user is all before the last @, and may hold one
// itself, as names from directories and single sign-on do (pve-access-control, PVE::Auth::Plugin and
// PVE::AccessControl).
var tokenPattern = regexp.MustCompile(`^([^\s:/]+@[A-Za-z][A-Za-z0-9._-]+![A-Za-z][A-Za-z0-9._-]*)=([A-Za-z0-9-]+)$`)

// New checks opts and returns a client. It reads the CA file but sends nothing. Errors never contain the secret.
func New(opts Options) (*Client, error) {
	base, err := endpointURL(opts.Endpoint)
	if err != nil {
		return nil, err
	}
	token := tokenPattern.FindStringSubmatch(opts.Token)
	if token == nil {
		return nil, tokenFormatError(opts.Token)
	}
	tlsConfig, err := tlsConfig(opts)
	if err != nil {
		return nil, err
	}
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Warn == nil {
		opts.Warn = func(string) {}
	}
	transport := newTransport(tlsConfig, token[2], opts.Log)
	httpClient := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	api := pve.NewClient(base+"/api2/json",
		pve.WithHTTPClient(httpClient),
		pve.WithAPIToken(token[1], token[2]),
		pve.WithUserAgent("hive-test"),
		pve.WithLogger(silent{}))
	return &Client{
			api: api, endpoint: base, tokenID: token[1], timeout: opts.Timeout, http: httpClient, clock: &transport.clock,
			log: opts.Log, warn: opts.Warn, reported: map[string]bool{},
		},
		nil
}

// Endpoint is the URL without a path, such as https://pve1:8006.
func (c *Client) Endpoint() string { return c.endpoint }

// TokenID names the token without its secret: user@realm!name.
func (c *Client) TokenID() string { return c.tokenID }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// get reads, and asks again where that may help: reading changes nothing.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	again := func(try int, after time.Duration) {
		c.log.LogAttrs(
			ctx, slog.LevelDebug, "pve request will be made again", slog.String("path", path), slog.Int("try", try),
			slog.String("after", after.String()),
		)
	}
	tries, err := forReads.retry(
		ctx, hiccup, again, func() error { return c.call(ctx, http.MethodGet, path, query, nil, out) },
	)
	if err != nil && tries > 1 {
		return fmt.Errorf("%w (asked %s)", err, progress.Count(tries, "time"))
	}
	return err
}

// call sends one request with a time limit of its own and turns whatever goes wrong into this package's errors.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var err error
	switch method {
	case http.MethodPost:
		err = c.api.Post(limited, target, body, out)
	case http.MethodPut:
		err = c.api.Put(limited, target, body, out)
	case http.MethodDelete:
		err = c.api.Delete(limited, target, out)
	default:
		err = c.api.Get(limited, target, out)
	}
	if err == nil {
		return nil
	}
	return c.explain(ctx, limited, method, path, err)
}

func endpointURL(endpoint string) (string, error) {
	if endpoint == "" {
		return "", fmt.Errorf("no proxmox endpoint is set: give an https URL such as https://pve1.example:8006")
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "":
		return "",
			fmt.Errorf("proxmox endpoint %q is not a URL: write it like https://pve1.example:8006", redactURL(endpoint))
	case u.Scheme != "https":
		return "",
			fmt.Errorf("proxmox endpoint %q is not https: write it like https://pve1.example:8006", redactURL(endpoint))
	case u.User != nil:
		return "", fmt.Errorf("proxmox endpoint must not contain a user or password: use an API token")
	case !slices.Contains([]string{"", "api2/json"}, strings.Trim(u.Path, "/")) || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf(
			"proxmox endpoint %q has more than a host and a port: the API is asked at /api2/json there; write it "+
				"like https://%s",
			endpoint, u.Host,
		)
	}
	return "https://" + u.Host, nil
}

// BaseURL is an endpoint as the provider takes it: without the path at which the API is asked, which it adds itself.
func BaseURL(endpoint string) string {
	return strings.TrimSuffix(strings.TrimRight(endpoint, "/"), "/api2/json")
}

// redactURL keeps a password that was put into a URL out of messages.
func redactURL(s string) string {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		return "***" + s[at:]
	}
	return s
}

// NoToken says that there is no API token, and where it may be put.
const NoToken = "no API token: set PROXMOX_VE_API_TOKEN, like user@realm!name=secret, or proxmox.token_file " +
	"(--proxmox-token-file)"

func tokenFormatError(token string) error {
	const form = "set PROXMOX_VE_API_TOKEN, or what is in the file of proxmox.token_file, to user@realm!name=secret"
	id, secret, found := strings.Cut(token, "=")
	switch {
	case token == "":
		return errors.New(NoToken)
	case !found:
		return fmt.Errorf("the proxmox API token has no '=' before its secret: %s", form)
	case !strings.Contains(id, "@"):
		return fmt.Errorf("the proxmox API token has no realm: %s", form)
	case !strings.Contains(id, "!"):
		return fmt.Errorf("the proxmox API token has no token name after '!': %s", form)
	}
	if secret == "" {
		return fmt.Errorf("the secret of the proxmox API token is empty, after its '=': %s", form)
	}
	return fmt.Errorf("the proxmox API token is malformed (blanks, or characters that a secret cannot have): %s", form)
}

// silent is a logger that forgets: go-proxmox's own one writes to the process's streams.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Errorf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
