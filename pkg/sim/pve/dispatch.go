package pve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// call is one API call on its way to a handler. Handlers run with the server's mutex held unless their route says
// async.
type call struct {
	ctx    context.Context
	req    *request
	who    identity
	params map[string]value
	node   string // resolved {node}
	vmid   int    // {vmid}, 0 if the path has none
	fault  *fault // the fault that this call is to meet, nil for none
}

func (c *call) has(name string) bool { _, ok := c.params[name]; return ok }

func (c *call) get(name string) string { return c.params[name].text }

func (c *call) bool(name string) bool { return c.get(name) == "1" }

func (c *call) int(name string, def int) int {
	n, err := strconv.Atoi(c.get(name))
	if err != nil {
		return def
	}
	return n
}

type handler func(*Server, *call) (any, error)

// route ties a published path to what serves it. An async handler runs without the server's mutex, since it waits.
type route struct {
	method string
	path   string
	async  bool
	serve  handler
}

// list is an answer with a total, as lists of tasks and log lines are.
type list struct {
	data  any
	total int
}

// matched is a route with the values of its path's placeholders.
type matched struct {
	route  *route
	schema *method
	values map[string]value
}

// match finds the route of a path. Segments are split before they are unescaped; {volume} takes all that is left.
func (s *Server) match(verb, path string) *matched {
	var segments []string
	for seg := range strings.SplitSeq(path, "/") {
		if seg != "" {
			segments = append(segments, unescape(seg))
		}
	}
	for i := range s.routes {
		r := &s.routes[i]
		schema := s.table[r.path][verb]
		if r.method != verb || schema == nil { // this version does not have it
			continue
		}
		if values, ok := fit(r.path, segments); ok {
			return &matched{route: r, schema: schema, values: values}
		}
	}
	return nil
}

func fit(pattern string, segments []string) (map[string]value, bool) {
	values := map[string]value{}
	parts := strings.Split(strings.Trim(pattern, "/"), "/")
	for i, part := range parts {
		if i >= len(segments) {
			return nil, false
		}
		name, isParam := strings.CutPrefix(part, "{")
		name = strings.TrimSuffix(name, "}")
		switch {
		case name == "volume" && isParam:
			text := strings.Join(segments[i:], "/")
			values[name] = value{text: text, list: []string{text}}
			return values, true
		case isParam:
			values[name] = value{text: segments[i], list: []string{segments[i]}}
		case part != segments[i]:
			return nil, false
		}
	}
	return values, len(parts) == len(segments)
}

// handle answers one request and journals it.
func (s *Server) handle(ctx context.Context, r *request) *response {
	s.touch()
	if strings.HasPrefix(r.path, "/sim/") {
		return s.handleSim(ctx, r)
	}
	s.serving.Add(1)
	defer s.serving.Add(-1)
	start := time.Now()
	e := &journalEntry{Time: start, Method: r.method, Path: r.path}
	resp := s.serveAPI(ctx, r, e)
	e.Status, e.Reason, e.Milliseconds = resp.status, resp.reason, time.Since(start).Milliseconds()
	if resp.drop {
		e.Status, e.Reason = 0, "connection dropped"
	}
	s.journal.add(e)
	return resp
}

func (s *Server) serveAPI(ctx context.Context, r *request, e *journalEntry) *response {
	path := "/" + strings.TrimLeft(r.path, "/")
	rest, ok := strings.CutPrefix(path, "/api2/")
	if !ok {
		if path == "/api2" {
			return plainResponse(501, "no such uri")
		}
		return plainResponse(500, "no such file '"+path+"'")
	}
	format, rest, _ := strings.Cut(rest, "/")
	switch {
	case format == "":
		return plainResponse(501, "no such uri")
	case format != "json":
		return plainResponse(501, "no formatter for uri /"+rest+", "+format)
	}
	switch r.method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		return &response{status: 501, reason: "method '" + r.method + "' not available"}
	}
	apiPath := "/" + strings.Trim(rest, "/")
	flt := s.faults.take(r.method, apiPath)
	if flt != nil {
		if resp := s.injected(ctx, flt); resp != nil {
			return resp
		}
	}
	data, err := s.dispatch(ctx, r, apiPath, flt, e)
	if flt != nil && flt.Lost {
		return &response{drop: true}
	}
	if err != nil {
		if e, ok := errors.AsType[*apiError](err); ok && e.status == 401 {
			sleep(ctx, s.opt.AuthDelay) // every 401 takes 3 s (observed)
		}
		return errorResponse(err)
	}
	return dataResponse(data)
}

func dataResponse(data any) *response {
	body := map[string]any{"data": data}
	if l, ok := data.(list); ok {
		body["data"], body["total"] = l.data, l.total
	}
	return &response{status: 200, reason: "OK", ctype: contentJSON, body: mustJSON(body)}
}

// dispatch checks a call in the order of PVE: path, login, privileges, hypervisor, parameters; then it serves it.
func (s *Server) dispatch(ctx context.Context, r *request, path string, flt *fault, e *journalEntry) (any, error) {
	m := s.match(r.method, path)
	world := m != nil && m.schema.World
	c := &call{ctx: ctx, req: r, fault: flt}
	if !world {
		who, reason := s.authenticate(r)
		if reason != "" {
			return nil, &apiError{status: 401, message: reason, bare: true}
		}
		c.who = who
		e.User = who.name()
	}
	if m == nil {
		return nil, &apiError{status: 501, message: "Method '" + r.method + " " + path + "' not implemented"}
	}
	params, err := r.params()
	if err != nil {
		return nil, err
	}
	e.Params = redacted(params)
	c.params = merged(params, m.values)
	return s.perform(c, m)
}

// perform serves a call of somebody who is known, if it may be made.
func (s *Server) perform(c *call, m *matched) (any, error) {
	if err := s.admit(c, m); err != nil {
		return nil, err
	}
	if m.route.path == uploadPath {
		return s.upload(c)
	}
	if errs := validateParams(m.schema.props, c.params); len(errs) > 0 {
		return nil, &apiError{status: 400, message: msgParams, errs: errs}
	}
	c.vmid = c.int("vmid", 0)
	if err := s.needsQuorum(m.route); err != nil {
		return nil, err
	}
	if m.route.async {
		return m.route.serve(s, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := m.route.serve(s, c)
	if err == nil && m.route.method != http.MethodGet {
		s.changed()
	}
	return data, err
}

// admit checks privileges and that the hypervisor answers, both before any parameter is looked at (observed).
func (s *Server) admit(c *call, m *matched) error {
	s.mu.Lock()
	if m.schema.NoToken && c.who.token != "" {
		s.mu.Unlock()
		return &apiError{status: 403, message: "API Tokens are not allowed to access this endpoint"}
	}
	if err := s.checkPermission(c.who, m.schema.Check, c.params); err != nil {
		s.mu.Unlock()
		return err
	}
	name, ok := m.values["node"]
	if !ok {
		s.mu.Unlock()
		return nil
	}
	n, err := s.findNode(name.text)
	online := n != nil && n.Online
	s.mu.Unlock()
	if err != nil {
		return err
	}
	c.node = n.Name
	c.params["node"] = value{text: n.Name, list: []string{n.Name}}
	if !online && (m.schema.Proxied || m.route.path == uploadPath) {
		sleep(c.ctx, s.opt.OfflineDelay)
		return &apiError{status: 595, message: "No route to host", bare: true}
	}
	return nil
}

// findNode resolves a hypervisor's name as pveproxy does (observed: unknown names fail in the lookup, another case
// fails in the certificate check, "localhost" works).
func (s *Server) findNode(name string) (*node, error) {
	if name == "localhost" {
		return s.state.Nodes[0], nil
	}
	if n := s.state.node(name); n != nil {
		return n, nil
	}
	for _, n := range s.state.Nodes {
		if strings.EqualFold(n.Name, name) || strings.HasPrefix(name, n.Name+".") {
			return nil,
				&apiError{status: 596, message: "error:0A000086:SSL routines::certificate verify failed", bare: true}
		}
	}
	return nil,
		failf("hostname lookup '%s' failed - failed to get address info for: %s: Temporary failure in name resolution",
			name, name)
}
