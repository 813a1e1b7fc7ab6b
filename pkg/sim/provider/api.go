package provider

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Errors of the API that callers tell apart.
var (
	errNoData  = errors.New("the server did not include a data object in the response")
	errMissing = errors.New("the requested resource does not exist")
	errExists  = errors.New("the requested resource already exists")
)

// httpError is an answer outside 2xx.
type httpError struct {
	code    int
	message string
}

func (e *httpError) Error() string {
	return fmt.Sprintf("received an HTTP %d response - Reason: %s", e.code, e.message)
}

// credentials hold one of: an API token, a ticket, a user and password.
type credentials struct {
	token              string
	ticket, csrf       string
	username, password string
	otp                string
}

var tokenShape = regexp.MustCompile(`^\S+@\S+!\S+=([a-zA-Z0-9-]+)$`)

// check refuses what the real provider refuses before it sends anything. A
// token has precedence over a ticket, a ticket over user and password.
func (c credentials) check() error {
	switch {
	case c.token != "" && !tokenShape.MatchString(c.token):
		return errors.New("the API token must be in the format 'USER@REALM!TOKENID=UUID'")
	case c.token != "", c.ticket != "" && c.csrf != "":
		return nil
	case c.username != "" && c.password != "":
		if !strings.Contains(c.username, "@") {
			return errors.New("the username must end with '@pve' or '@pam'")
		}
		return nil
	}
	return errors.New("must provide either username and password, an API token, or a ticket")
}

// usesPassword is true if requests are signed with a login of user and password.
func (c credentials) usesPassword() bool {
	return c.token == "" && (c.ticket == "" || c.csrf == "")
}

// api talks to /api2/json. It is safe for concurrent use.
type api struct {
	endpoint string
	creds    credentials
	http     *http.Client

	mu    sync.Mutex
	login *loginData
}

type loginData struct {
	CSRF   string `json:"CSRFPreventionToken"`
	Ticket string `json:"ticket"`
	User   string `json:"username"`
}

func newAPI(endpoint string, insecure bool, minTLS string, creds credentials) (*api, error) {
	u, err := url.ParseRequestURI(endpoint)
	if err != nil {
		return nil, errors.New(
			"you must specify a valid endpoint for the Proxmox Virtual Environment API (valid: https://host:port/)",
		)
	}
	if u.Scheme != "https" {
		return nil, errors.New(
			"you must specify a secure endpoint for the Proxmox Virtual Environment API (valid: " +
				"https://host:port/)",
		)
	}
	version, err := tlsVersion(minTLS)
	if err != nil {
		return nil, err
	}
	u.Path = ""
	return &api{
		endpoint: strings.TrimRight(u.String(), "/"),
		creds:    creds,
		http: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{
				MinVersion:         version,
				InsecureSkipVerify: insecure, // the user's own setting of the provider
			},
		}},
	}, nil
}

func tlsVersion(s string) (uint16, error) {
	switch strings.TrimSpace(s) {
	case "", "1.3":
		return tls.VersionTLS13, nil
	case "1.2":
		return tls.VersionTLS12, nil
	case "1.1":
		return tls.VersionTLS11, nil
	case "1.0":
		return tls.VersionTLS10, nil
	}
	return 0, fmt.Errorf("unsupported minimal TLS version %s, must be one of: , 1.0, 1.1, 1.2, 1.3", s)
}

// do sends one request. params go into the query of GET and DELETE and into a
// form body otherwise. out, if not nil, receives the whole JSON answer.
func (a *api) do(ctx context.Context, method, path string, params url.Values, out any) error {
	full, body := path, io.Reader(http.NoBody)
	encoded := params.Encode()
	inQuery := method == http.MethodGet || method == http.MethodDelete
	if encoded != "" && inQuery {
		full += "?" + encoded
	} else if encoded != "" {
		body = strings.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.endpoint+"/api2/json/"+full, body)
	if err != nil {
		return fmt.Errorf("failed to create HTTP %s request (path: %s) - Reason: %w", method, full, err)
	}
	req.Header.Add("Accept", "application/json")
	if encoded != "" && !inQuery {
		req.Header.Add("Content-Type", "application/x-www-form-urlencoded")
	}
	if err := a.sign(ctx, req); err != nil {
		return fmt.Errorf("failed to authenticate HTTP %s request (path: %s) - Reason: %w", method, full, err)
	}
	res, err := a.send(ctx, req)
	if err != nil {
		return fmt.Errorf("failed to perform HTTP %s request (path: %s) - Reason: %w", method, full, err)
	}
	defer res.Body.Close()
	if err := checkStatus(res); err != nil {
		return err
	}
	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("failed to decode HTTP %s response (path: %s) - Reason: %w", method, full, err)
	}
	return nil
}

// send repeats GET requests that did not reach the server, never others.
func (a *api) send(ctx context.Context, req *http.Request) (res *http.Response, err error) {
	policy := retryPolicy{attempts: 3, delay: jittered, lastOnly: true, retryIf: func(err error) bool {
		ue, ok := errors.AsType[*url.Error](err)
		return ok && strings.EqualFold(ue.Op, http.MethodGet)
	}}
	err = policy.do(ctx, func() error {
		res, err = a.http.Do(req) // closed by do
		return err
	})
	return res, err
}

func (a *api) sign(ctx context.Context, req *http.Request) error {
	if a.creds.token != "" {
		req.Header.Set("Authorization", "PVEAPIToken="+a.creds.token)
		return nil
	}
	login := &loginData{CSRF: a.creds.csrf, Ticket: a.creds.ticket}
	if a.creds.usesPassword() {
		var err error
		if login, err = a.authenticate(ctx); err != nil {
			return fmt.Errorf("failed to authenticate: %w", err)
		}
	}
	req.AddCookie(&http.Cookie{Name: "PVEAuthCookie", Value: login.Ticket, Secure: true, HttpOnly: true})
	if req.Method != http.MethodGet {
		req.Header.Add("CSRFPreventionToken", login.CSRF)
	}
	return nil
}

func (a *api) authenticate(ctx context.Context) (*loginData, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.login != nil {
		return a.login, nil
	}
	body := "username=" + url.QueryEscape(a.creds.username) + "&password=" + url.QueryEscape(a.creds.password)
	if a.creds.otp != "" {
		body += "&otp=" + url.QueryEscape(a.creds.otp)
	}
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, a.endpoint+"/api2/json/access/ticket", strings.NewReader(body),
	)
	if err != nil {
		return nil, fmt.Errorf("failed to create authentication request: %w", err)
	}
	req.Header.Add("Content-Type", "application/x-www-form-urlencoded")
	res, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("failed to retrieve authentication response: %w", err)
	}
	defer res.Body.Close()
	if err := checkStatus(res); err != nil {
		return nil, fmt.Errorf("failed to authenticate: %w", err)
	}
	var answer struct{ Data *loginData }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("failed to decode authentication response, %w", err)
	}
	if answer.Data == nil || answer.Data.Ticket == "" || answer.Data.CSRF == "" {
		return nil, errors.New("the server did not include a ticket in the authentication response")
	}
	a.login = answer.Data
	return a.login, nil
}

// rootTicket is true if the calls are made by root@pam with a login, not a token.
func (a *api) rootTicket(ctx context.Context) bool {
	if !a.creds.usesPassword() {
		return false
	}
	login, err := a.authenticate(ctx)
	return err == nil && login.User == "root@pam"
}

// checkStatus turns an answer outside 2xx into an error. PVE says most in the
// reason phrase; errors{} and message add to it.
func checkStatus(res *http.Response) error {
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil
	}
	msg := strings.TrimPrefix(res.Status, fmt.Sprintf("%d ", res.StatusCode))
	if details := errorDetails(res.Body, msg); len(details) > 0 {
		msg = fmt.Sprintf("%s (%s)", msg, strings.Join(details, " - "))
	}
	he := &httpError{code: res.StatusCode, message: msg}
	gone := []string{"does not exist", "no such resource", "no such ha", "No such file or directory"}
	switch {
	case he.code == http.StatusNotFound,
		he.code == http.StatusInternalServerError && slices.ContainsFunc(
			gone, func(s string) bool { return strings.Contains(msg, s) },
		):
		return errors.Join(errMissing, he)
	case strings.Contains(msg, "already exists"):
		return errors.Join(errExists, he)
	}
	return he
}

func errorDetails(body io.Reader, reason string) []string {
	var answer struct {
		Errors  map[string]string `json:"errors"`
		Message string            `json:"message"`
	}
	if json.NewDecoder(body).Decode(&answer) != nil {
		return nil
	}
	var details []string
	for _, k := range sortedKeys(answer.Errors) {
		details = append(details, k+": "+strings.TrimRight(answer.Errors[k], "\n\r"))
	}
	for _, line := range slices.Compact(strings.Split(answer.Message, "\n")) {
		// The first line repeats the reason phrase.
		if line != "" && !strings.HasPrefix(line, reason) {
			details = append(details, line)
		}
	}
	return details
}
