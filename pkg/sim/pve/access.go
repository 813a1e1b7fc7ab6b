package pve

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ticketLife is how long a login ticket is accepted; two hours in Proxmox VE (read in its source, not observed).
const ticketLife = 2 * time.Hour

// access is user.cfg: who may do what where.
type access struct {
	Users  map[string]*user
	Roles  map[string][]string // those made by users; built-in ones depend on the version
	ACL    []aclEntry
	Secret []byte // signs tickets
}

type user struct {
	ID       string
	Disabled bool
	Expire   int64
	Comment  string
	Salt     string
	Password string // hex SHA-256 of salt and password
	Tokens   map[string]*token
}

type token struct {
	ID       string
	Privsep  bool
	Expire   int64
	Comment  string
	Secret   string
	Disabled bool
}

// aclEntry grants a role to a user or token ("user@realm!id") on a path and below it.
type aclEntry struct {
	Path      string
	Role      string
	Who       string
	Type      string // user or token
	Propagate bool
}

// superuser is who may do everything, when logged in with no token.
const superuser = "root@pam"

// identity is who makes a call.
type identity struct {
	user  string
	token string // empty with a ticket
}

func (i identity) name() string {
	if i.token == "" {
		return i.user
	}
	return i.user + "!" + i.token
}

// builtinRoles are the roles and privileges of a version (both observed): in 9 VM.Monitor is replaced by the
// VM.GuestAgent privileges.
func builtinRoles(version string) map[string][]string {
	vm := []string{
		"VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit",
		"VM.Config.Disk", "VM.Config.HWType", "VM.Config.Memory", "VM.Config.Network", "VM.Config.Options",
		"VM.Console",
		"VM.Migrate", "VM.PowerMgmt", "VM.Snapshot", "VM.Snapshot.Rollback",
	}
	if version == Version84 {
		vm = append(vm, "VM.Monitor")
	} else {
		vm = append(vm, "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt",
			"VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted", "VM.Replicate")
	}
	datastore := []string{
		"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
	}
	admin := slices.Concat(datastore, vm, []string{
		"Group.Allocate", "Mapping.Audit", "Mapping.Use", "Pool.Allocate", "Pool.Audit", "Realm.AllocateUser",
		"SDN.Allocate", "SDN.Audit", "SDN.Use", "Sys.Audit", "Sys.Console", "Sys.Syslog", "User.Modify",
	})
	roles := map[string][]string{
		"PVEAdmin": admin,
		"Administrator": slices.Concat(admin, []string{
			"Mapping.Modify", "Permissions.Modify", "Realm.Allocate", "Sys.AccessNetwork", "Sys.Incoming", "Sys.Modify",
			"Sys.PowerMgmt",
		}),
		"PVEVMAdmin": vm,
		"PVEVMUser": {
			"VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt",
		},
		"PVETemplateUser":   {"VM.Audit", "VM.Clone"},
		"PVEPoolAdmin":      {"Pool.Allocate", "Pool.Audit"},
		"PVEPoolUser":       {"Pool.Audit"},
		"PVEDatastoreAdmin": datastore,
		"PVEDatastoreUser":  {"Datastore.AllocateSpace", "Datastore.Audit"},
		"PVESDNAdmin":       {"SDN.Allocate", "SDN.Audit", "SDN.Use"},
		"PVESDNUser":        {"SDN.Audit", "SDN.Use"},
		"PVESysAdmin":       {"Sys.Audit", "Sys.Console", "Sys.Syslog"},
		"PVEUserAdmin":      {"Group.Allocate", "Realm.AllocateUser", "User.Modify"},
		"PVEMappingAdmin":   {"Mapping.Audit", "Mapping.Modify", "Mapping.Use"},
		"PVEMappingUser":    {"Mapping.Audit", "Mapping.Use"},
		"PVEAuditor":        {"Datastore.Audit", "Mapping.Audit", "Pool.Audit", "SDN.Audit", "Sys.Audit", "VM.Audit"},
		"NoAccess":          {},
	}
	if version != Version84 {
		roles["PVEAuditor"] = append(roles["PVEAuditor"], "VM.GuestAgent.Audit")
		roles["PVEVMUser"] = append(roles["PVEVMUser"], "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt",
			"VM.GuestAgent.FileWrite")
	}
	for _, privs := range roles {
		slices.Sort(privs)
	}
	return roles
}

func (s *Server) rolePrivs(role string) ([]string, bool) {
	if p, ok := s.roles[role]; ok {
		return p, true
	}
	p, ok := s.state.Access.Roles[role]
	return p, ok
}

// rolesOn collects the roles that one name holds on a path: the entries of the deepest level that has any replace those
// above it (observed).
func (s *Server) rolesOn(who, path string) map[string]bool {
	found := map[string]bool{}
	for _, level := range levels(path) {
		var here []aclEntry
		for _, e := range s.state.Access.ACL {
			if e.Who == who && e.Path == level && (e.Propagate || level == path) {
				here = append(here, e)
			}
		}
		if len(here) == 0 {
			continue
		}
		found = map[string]bool{}
		for _, e := range here {
			found[e.Role] = e.Propagate
		}
	}
	return found
}

func levels(path string) []string {
	out := []string{"/"}
	if path == "/" {
		return out
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			out = append(out, path[:i])
		}
	}
	return append(out, path)
}

// privsOf are the privileges of a user or token name on a path, with whether they propagate.
func (s *Server) privsOf(who, path string) map[string]bool {
	out := map[string]bool{}
	if who == "root@pam" {
		for _, p := range s.roles["Administrator"] {
			out[p] = true
		}
		return out
	}
	roles := s.rolesOn(who, path)
	if _, no := roles["NoAccess"]; no {
		return out
	}
	for role, propagate := range roles {
		privs, _ := s.rolePrivs(role)
		for _, p := range privs {
			out[p] = out[p] || propagate
		}
	}
	for _, pool := range s.poolsOf(path) {
		for p, propagate := range s.privsOf(who, "/pool/"+pool) {
			out[p] = out[p] || propagate
		}
	}
	return out
}

// poolsOf are the pools whose privileges reach a path.
func (s *Server) poolsOf(path string) []string {
	var out []string
	if id, ok := strings.CutPrefix(path, "/vms/"); ok {
		n, _ := strconv.Atoi(id)
		if p := s.state.poolOf(n); p != "" {
			out = append(out, p)
		}
	}
	if id, ok := strings.CutPrefix(path, "/storage/"); ok {
		for _, p := range sortedKeys(s.state.Pools) {
			if slices.Contains(s.state.Pools[p].Storages, id) {
				out = append(out, p)
			}
		}
	}
	return out
}

// privs are what an identity may do on a path. A token with privilege separation has the intersection of its own and
// its user's privileges.
func (s *Server) privs(who identity, path string) map[string]bool {
	user := s.privsOf(who.user, path)
	if who.token == "" {
		return user
	}
	u := s.state.Access.Users[who.user]
	if u == nil || u.Tokens[who.token] == nil || !u.Tokens[who.token].Privsep {
		return user
	}
	own := s.privsOf(who.name(), path)
	for p := range own {
		if _, ok := user[p]; !ok {
			delete(own, p)
		}
	}
	return own
}

// can tells whether all (or, with anyOf, one of) the privileges are held.
func (s *Server) can(who identity, path string, anyOf bool, privs ...string) bool {
	held := s.privs(who, path)
	for _, p := range privs {
		_, ok := held[p]
		if ok == anyOf {
			return ok
		}
	}
	return !anyOf
}

// need is can as an error in PVE's words.
func (s *Server) need(who identity, path string, privs ...string) error {
	for _, p := range privs {
		if !s.can(who, path, false, p) {
			return forbidden(path, p)
		}
	}
	return nil
}

func forbidden(path string, privs ...string) error {
	return &apiError{
		status: 403, message: fmt.Sprintf("Permission check failed (%s, %s)", path, strings.Join(privs, "|")),
	}
}

// aclPath is a path as the permission check sees it, empty if it is none.
func aclPath(path string) string {
	if !aclPathPattern.MatchString(path) {
		return ""
	}
	path = "/" + strings.Trim(slashesPattern.ReplaceAllString(path, "/"), "/")
	return path
}

// authenticate finds who a request is from: by a ticket in a cookie, else by one in the header Authorization, else by a token there (read
// in the source: PVE/APIServer/AnyEvent.pm). The second result is the reason phrase of the 401.
func (s *Server) authenticate(r *request) (identity, string) {
	auth := r.header.Get("Authorization")
	ticket := cmp.Or(authValue(ticketPattern, r.header.Get("Cookie")), authValue(ticketPattern, auth))
	if t := authValue(tokenPattern, auth); ticket == "" && t != "" {
		id, ok := s.checkToken(t)
		if !ok {
			return identity{}, "Authentication failed!"
		}
		return id, ""
	}
	if ticket == "" {
		return identity{}, "No ticket"
	}
	id, ok := s.checkTicket(ticket)
	if !ok {
		return identity{}, "Authentication failed!"
	}
	if r.method != "GET" && !s.checkCSRF(id.user, r.header.Get("CSRFPreventionToken")) {
		return identity{}, "Permission denied - invalid csrf token"
	}
	return id, ""
}

func (s *Server) checkToken(t string) (identity, bool) {
	// A user's name may hold = and !, what follows it does not.
	equals := strings.LastIndex(t, "=")
	mark := strings.LastIndex(t[:max(equals, 0)], "!")
	if mark < 0 {
		return identity{}, false
	}
	name, id, secret := t[:mark], t[mark+1:equals], t[equals+1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.state.Access.Users[name]
	if u == nil || u.Disabled || expired(u.Expire) {
		return identity{}, false
	}
	tok := u.Tokens[id]
	if tok == nil || expired(tok.Expire) || subtle.ConstantTimeCompare([]byte(tok.Secret), []byte(secret)) != 1 {
		return identity{}, false
	}
	return identity{user: name, token: id}, true
}

func expired(at int64) bool { return at != 0 && at <= time.Now().Unix() }

// authValue is what a header says of who asks; empty: nothing.
func authValue(pattern *regexp.Regexp, header string) string {
	if m := pattern.FindStringSubmatch(header); m != nil {
		return unescape(m[1])
	}
	return ""
}

func (s *Server) sign(parts ...string) string {
	m := hmac.New(sha256.New, s.state.Access.Secret)
	for _, p := range parts {
		m.Write([]byte(p + "\x00"))
	}
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func (s *Server) makeTicket(user string) (ticket, csrf string) {
	at := fmt.Sprintf("%08X", time.Now().Unix())
	return "PVE:" + user + ":" + at + "::" + s.sign("ticket", user, at), at + ":" + s.sign("csrf", user, at)
}

func (s *Server) checkTicket(ticket string) (identity, bool) {
	rest, ok := strings.CutPrefix(ticket, "PVE:")
	head, sig, ok2 := strings.Cut(rest, "::")
	if !ok || !ok2 {
		return identity{}, false
	}
	i := strings.LastIndex(head, ":")
	if i < 0 {
		return identity{}, false
	}
	name, at := head[:i], head[i+1:]
	if !hmac.Equal([]byte(sig), []byte(s.sign("ticket", name, at))) || !fresh(at) {
		return identity{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.state.Access.Users[name]
	return identity{user: name}, u != nil && !u.Disabled && !expired(u.Expire)
}

func (s *Server) checkCSRF(user, token string) bool {
	at, sig, ok := strings.Cut(token, ":")
	return ok && hmac.Equal([]byte(sig), []byte(s.sign("csrf", user, at))) && fresh(at)
}

func fresh(at string) bool {
	n, err := strconv.ParseInt(at, 16, 64)
	age := time.Since(time.Unix(n, 0))
	return err == nil && age < ticketLife && age > -5*time.Minute
}

func (u *user) setPassword(password string) {
	u.Salt = randomHex(8)
	u.Password = hashPassword(u.Salt, password)
}

func (u *user) passwordIs(password string) bool {
	return u.Password != "" &&
		subtle.ConstantTimeCompare([]byte(u.Password), []byte(hashPassword(u.Salt, password))) == 1
}

func hashPassword(salt, password string) string {
	sum := sha256.Sum256([]byte(salt + password))
	return hex.EncodeToString(sum[:])
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it aborts the program instead (crypto/rand)
	return hex.EncodeToString(b)
}

// checkPermission evaluates a published permission check. A nil check is open to every user.
func (s *Server) checkPermission(who identity, check any, params map[string]value) error {
	list, ok := check.([]any)
	if !ok || len(list) == 0 {
		return nil
	}
	switch list[0] {
	case "and":
		for _, c := range list[1:] {
			if err := s.checkPermission(who, c, params); err != nil {
				return err
			}
		}
		return nil
	case "or":
		var first error
		for _, c := range list[1:] {
			err := s.checkPermission(who, c, params)
			if err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
		}
		// PVE raises the exception without a path when no branch of an "or" holds (observed for clone).
		return &apiError{status: 403, message: "Permission check failed"}
	case "perm":
		return s.checkPerm(who, list, params)
	case "perm-modify":
		return s.need(who, aclPath(params["path"].text), "Permissions.Modify")
	case "userid-param":
		if len(list) > 1 && list[1] == "self" && params["userid"].text == who.user {
			return nil
		}
		return s.need(who, "/access/realm/pve", "Realm.AllocateUser")
	case "userid-group":
		return s.need(who, "/access/groups", "User.Modify")
	}
	return fmt.Errorf("unknown permission check %v in the API table", list[0])
}

func (s *Server) checkPerm(who identity, list []any, params map[string]value) error {
	path, _ := list[1].(string)
	privList, _ := list[2].([]any)
	var privs []string
	for _, p := range privList {
		privs = append(privs, fmt.Sprint(p))
	}
	opts := map[string]any{}
	for i := 3; i+1 < len(list); i += 2 {
		opts[fmt.Sprint(list[i])] = list[i+1]
	}
	if required, ok := opts["require_param"]; ok {
		if _, given := params[fmt.Sprint(required)]; !given {
			return &apiError{status: 403, message: "Permission check failed"}
		}
	}
	for name, v := range params {
		path = strings.ReplaceAll(path, "{"+name+"}", v.text)
	}
	path = aclPath(placeholderPattern.ReplaceAllString(path, "")) // a missing parameter counts as empty
	_, anyOf := opts["any"]
	if s.can(who, path, anyOf, privs...) && path != "" {
		return nil
	}
	if anyOf {
		return forbidden(path, privs...)
	}
	for _, p := range privs {
		if path == "" || !s.can(who, path, false, p) {
			return forbidden(path, p)
		}
	}
	return nil
}
