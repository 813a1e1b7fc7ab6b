package api

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	gopath "path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/deploy"
)

// RelayUser is who logs in at a relay.
const RelayUser = "hive-test@relay"

// relayBody is the longest body of a request that is passed on, in bytes: settings of a VM.
const relayBody = 1 << 20

// RelayOptions say what a relay lets a program do.
type RelayOptions struct {
	Password string // of RelayUser, and what its ticket is
	// Hypervisor and VMID are of the one VM that is made and changed, and Source is what it is cloned from.
	Hypervisor string
	VMID       int
	Source     deploy.VMRef
	PublicKey  string // is let in besides those that the program names
	// Clone are options that every request to clone has, and Config settings that every change of settings has, whatever the program
	// says of them.
	Clone, Config map[string]string
}

// Relay answers another program as Proxmox VE does, whom it asks with this client's token. The program logs in as RelayUser. It is
// safe for concurrent use.
func (c *Client) Relay(o RelayOptions) (http.Handler, error) {
	endpoint, err := url.Parse(c.endpoint)
	if err != nil {
		return nil, err
	}
	raw := c.http.Transport.(*transport)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(endpoint)
			r.Out.Header.Del("Cookie")
			r.Out.Header.Del("CSRFPreventionToken")
			r.Out.Header.Set("Authorization", "PVEAPIToken="+c.tokenID+"="+raw.secret)
		},
		Transport: raw.next,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			refuse(w, http.StatusBadGateway, "Proxmox VE was not reached: "+raw.redact(err.Error()))
		},
	}
	return &relay{RelayOptions: o, next: proxy}, nil
}

type relay struct {
	RelayOptions
	next http.Handler
}

// ServeHTTP passes a request on, if it may be.
func (l *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, inside := strings.CutPrefix(r.URL.Path, "/api2/json/")
	switch {
	case !inside:
		refuse(w, http.StatusNotFound, "there is nothing but /api2/json here")
	case path == "access/ticket" && r.Method == http.MethodPost:
		l.login(w, r)
	case !l.known(r):
		refuse(w, http.StatusUnauthorized, "permission denied - invalid PVE ticket")
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		l.next.ServeHTTP(w, r)
	default:
		l.change(w, r, path)
	}
}

// login answers with a ticket that is good here alone.
func (l *relay) login(w http.ResponseWriter, r *http.Request) {
	// The form is read whatever type of content is named: Packer's plugin names none.
	body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, relayBody))
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("username") != RelayUser || !equal(form.Get("password"), l.Password) {
		refuse(w, http.StatusUnauthorized, "authentication failure")
		return
	}
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{
		"username": RelayUser, "ticket": l.Password, "CSRFPreventionToken": l.Password, "clustername": "relay", "cap": map[string]any{},
	}})
}

// known reports whether the request has the ticket: in a cookie, or, as Packer's plugin sends it, in the header Authorization.
func (l *relay) known(r *http.Request) bool {
	ticket, given := strings.CutPrefix(r.Header.Get("Authorization"), "PVEAuthCookie=")
	if cookie, err := r.Cookie("PVEAuthCookie"); err == nil {
		ticket, given = cookie.Value, true
	}
	ticket, err := url.QueryUnescape(ticket)
	return given && err == nil && equal(ticket, l.Password)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// clonePath is where a program asks for a clone: of a VM that it knows by a name, which others may have, too.
var clonePath = regexp.MustCompile(`^nodes/[^/]+/qemu/[0-9]+/clone$`)

// change passes on what changes the VM, or makes it, with what is always to be said of it.
func (l *relay) change(w http.ResponseWriter, r *http.Request, path string) {
	own := "nodes/" + l.Hypervisor + "/qemu/" + strconv.Itoa(l.VMID)
	always := map[string]string{}
	switch {
	case r.URL.RawPath != "" || "/"+path != gopath.Clean("/"+path): // it may be another one there than it is here
		refuse(w, http.StatusForbidden, r.URL.Path+" is no plain path")
		return
	case clonePath.MatchString(path) && r.Method == http.MethodPost:
		always = maps.Clone(l.Clone)
		always["newid"] = strconv.Itoa(l.VMID)
		r.URL.Path = fmt.Sprintf("/api2/json/nodes/%s/qemu/%d/clone", l.Source.Hypervisor, l.Source.VMID)
	case path == own+"/config":
		always = l.Config
	case path != own && !strings.HasPrefix(path, own+"/"):
		refuse(w, http.StatusForbidden, fmt.Sprintf("%s %s is not passed on: only VM %d is made here", r.Method, r.URL.Path, l.VMID))
		return
	}
	if err := l.complete(w, r, always); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	l.next.ServeHTTP(w, r)
}

// complete puts options into the form that a request brings, and a key beside the keys that it has.
func (l *relay) complete(w http.ResponseWriter, r *http.Request, always map[string]string) error {
	if len(always) == 0 {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, relayBody))
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return fmt.Errorf("the request is no form: %w", err)
	}
	var lasting []string
	for _, name := range strings.FieldsFunc(form.Get("delete"), func(c rune) bool { return c == ',' || c == ' ' || c == ';' }) {
		if _, stays := always[name]; !stays {
			lasting = append(lasting, name)
		}
	}
	if form.Del("delete"); len(lasting) > 0 {
		form.Set("delete", strings.Join(lasting, ","))
	}
	for _, name := range slices.Sorted(maps.Keys(always)) {
		form.Set(name, always[name])
	}
	if keys, err := url.QueryUnescape(form.Get("sshkeys")); err == nil && keys != "" && l.PublicKey != "" {
		both := strings.TrimSpace(keys) + "\n" + l.PublicKey + "\n"
		form.Set("sshkeys", strings.ReplaceAll(url.QueryEscape(both), "+", "%20")) // a plus is not undone there
	}
	text := form.Encode()
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return nil
}

// refuse answers as Proxmox VE does.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"data": nil, "message": message + "\n"})
}
