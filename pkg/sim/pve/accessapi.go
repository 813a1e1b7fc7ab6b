package pve

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ticketCreate is the login. A failed one answers with a body, unlike other 401s (observed).
func ticketCreate(s *Server, c *call) (any, error) {
	name := c.get("username")
	if !strings.Contains(name, "@") {
		realm := c.get("realm")
		if realm == "" {
			realm = "pam"
		}
		name += "@" + realm
	}
	s.mu.Lock()
	u := s.state.Access.Users[name]
	password := c.get("password")
	ok := u != nil && !u.Disabled && !expired(u.Expire) && u.passwordIs(password)
	s.mu.Unlock()
	if !ok {
		if id, valid := s.checkTicket(password); !valid || id.user != name {
			return nil, &apiError{status: 401, message: "authentication failure"}
		}
	}
	ticket, csrf := s.makeTicket(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	caps := map[string]map[string]int{}
	for kind, path := range map[string]string{
		"access": "/access", "dc": "/", "nodes": "/nodes", "sdn": "/sdn", "storage": "/storage", "vms": "/vms",
	} {
		caps[kind] = propagation(s.privs(identity{user: name}, path))
	}
	return map[string]any{
		"username": name, "ticket": ticket, "CSRFPreventionToken": csrf, "cap": caps, "clustername": "sim",
	}, nil
}

func nothing(*Server, *call) (any, error) { return nil, nil }

func propagation(privs map[string]bool) map[string]int {
	out := map[string]int{}
	for p, propagate := range privs {
		out[p] = btoi(propagate)
	}
	return out
}

func permissions(s *Server, c *call) (any, error) {
	who := c.who
	if u := c.get("userid"); u != "" && u != who.name() {
		if err := s.need(c.who, "/access", "Sys.Audit"); err != nil {
			return nil, err
		}
		name, tok, _ := strings.Cut(u, "!")
		who = identity{user: name, token: tok}
	}
	paths := map[string]bool{}
	if p := c.get("path"); p != "" {
		paths[p] = true
	} else {
		for _, p := range []string{"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"} {
			paths[p] = true
		}
		for _, e := range s.state.Access.ACL {
			paths[e.Path] = true
		}
	}
	out := map[string]map[string]int{}
	for p := range paths {
		if privs := s.privs(who, p); len(privs) > 0 || c.has("path") {
			out[p] = propagation(privs)
		}
	}
	return out, nil
}

func aclList(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	if !s.can(c.who, "/access", false, "Sys.Audit") {
		return rows, nil
	}
	for _, e := range s.state.Access.ACL {
		rows = append(rows, map[string]any{
			"path": e.Path, "roleid": e.Role, "type": e.Type, "ugid": e.Who, "propagate": btoi(e.Propagate),
		})
	}
	return rows, nil
}

func aclUpdate(s *Server, c *call) (any, error) {
	path := aclPath(c.get("path"))
	if path == "" {
		return nil, badParam("path", "invalid ACL path '%s'", c.get("path"))
	}
	for _, role := range splitList(c.get("roles")) {
		if _, ok := s.rolePrivs(role); !ok {
			return nil, failf("ACL update failed: role '%s' does not exist", role)
		}
		for kind, list := range map[string]string{"user": c.get("users"), "token": c.get("tokens")} {
			for _, who := range splitList(list) {
				if !s.knows(who) {
					return nil, failf("ACL update failed: %s '%s' does not exist", kind, who)
				}
				s.setACL(aclEntry{Path: path, Role: role, Who: who, Type: kind, Propagate: c.get("propagate") != "0"},
					c.bool("delete"))
			}
		}
	}
	return nil, nil
}

func (s *Server) knows(who string) bool {
	name, tok, isToken := strings.Cut(who, "!")
	u := s.state.Access.Users[name]
	return u != nil && (!isToken || u.Tokens[tok] != nil)
}

func (s *Server) setACL(e aclEntry, remove bool) {
	s.state.Access.ACL = slices.DeleteFunc(s.state.Access.ACL, func(o aclEntry) bool {
		return o.Path == e.Path && o.Role == e.Role && o.Who == e.Who
	})
	if !remove {
		s.state.Access.ACL = append(s.state.Access.ACL, e)
	}
}

func roleList(s *Server, _ *call) (any, error) {
	rows := []map[string]any{}
	for _, id := range sortedKeys(s.roles) {
		rows = append(rows, map[string]any{"roleid": id, "privs": strings.Join(s.roles[id], ","), "special": 1})
	}
	for _, id := range sortedKeys(s.state.Access.Roles) {
		rows = append(rows, map[string]any{
			"roleid": id, "privs": strings.Join(s.state.Access.Roles[id], ","), "special": 0,
		})
	}
	return rows, nil
}

func roleGet(s *Server, c *call) (any, error) {
	privs, ok := s.rolePrivs(c.get("roleid"))
	if !ok {
		return nil, failf("role '%s' does not exist", c.get("roleid"))
	}
	out := map[string]int{}
	for _, p := range privs {
		out[p] = 1
	}
	return out, nil
}

func (s *Server) privList(text string) ([]string, error) {
	privs := splitList(text)
	for _, p := range privs {
		if !slices.Contains(s.roles["Administrator"], p) {
			return nil, badParam("privs", "invalid format - invalid privilege '%s'\n", p)
		}
	}
	slices.Sort(privs)
	return slices.Compact(privs), nil
}

func roleCreate(s *Server, c *call) (any, error) {
	id := c.get("roleid")
	if _, ok := s.rolePrivs(id); ok {
		return nil, failf("create role failed: role '%s' already exists", id)
	}
	privs, err := s.privList(c.get("privs"))
	if err != nil {
		return nil, err
	}
	s.state.Access.Roles[id] = privs
	return nil, nil
}

func roleUpdate(s *Server, c *call) (any, error) {
	id := c.get("roleid")
	old, ok := s.state.Access.Roles[id]
	if !ok {
		return nil, failf("update role failed: role '%s' does not exist", id)
	}
	text := c.get("privs")
	if c.bool("append") {
		text += "," + strings.Join(old, ",")
	}
	privs, err := s.privList(text)
	if err != nil {
		return nil, err
	}
	s.state.Access.Roles[id] = privs
	return nil, nil
}

func roleDelete(s *Server, c *call) (any, error) {
	id := c.get("roleid")
	if _, ok := s.state.Access.Roles[id]; !ok {
		return nil, failf("delete role failed: role '%s' does not exist", id)
	}
	delete(s.state.Access.Roles, id)
	return nil, nil
}

func userRow(u *user) map[string]any {
	realm := u.ID[strings.LastIndex(u.ID, "@")+1:]
	row := map[string]any{"userid": u.ID, "enable": btoi(!u.Disabled), "expire": u.Expire, "realm-type": realm}
	if u.Comment != "" {
		row["comment"] = u.Comment
	}
	return row
}

func userList(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	all := s.can(c.who, "/access/groups", true, "User.Modify", "Sys.Audit")
	for _, id := range sortedKeys(s.state.Access.Users) {
		if all || id == c.who.user {
			rows = append(rows, userRow(s.state.Access.Users[id]))
		}
	}
	return rows, nil
}

func (s *Server) user(id string) (*user, error) {
	if u := s.state.Access.Users[id]; u != nil {
		return u, nil
	}
	return nil, failf("no such user ('%s')", id)
}

func userGet(s *Server, c *call) (any, error) {
	u, err := s.user(c.get("userid"))
	if err != nil {
		return nil, err
	}
	row := userRow(u)
	delete(row, "userid")
	row["tokens"] = tokenRows(u)
	return row, nil
}

func userCreate(s *Server, c *call) (any, error) {
	id := c.get("userid")
	if s.state.Access.Users[id] != nil {
		return nil, failf("create user failed: user '%s' already exists", id)
	}
	u := &user{ID: id, Tokens: map[string]*token{}, Comment: c.get("comment"), Expire: int64(c.int("expire", 0))}
	u.Disabled = c.get("enable") == "0"
	if p := c.get("password"); p != "" {
		u.setPassword(p)
	}
	s.state.Access.Users[id] = u
	return nil, nil
}

func userUpdate(s *Server, c *call) (any, error) {
	u, err := s.user(c.get("userid"))
	if err != nil {
		return nil, failf("update user failed: %s", err)
	}
	if c.has("enable") {
		u.Disabled = !c.bool("enable")
	}
	if c.has("expire") {
		u.Expire = int64(c.int("expire", 0))
	}
	if c.has("comment") {
		u.Comment = c.get("comment")
	}
	return nil, nil
}

func userDelete(s *Server, c *call) (any, error) {
	id := c.get("userid")
	if _, err := s.user(id); err != nil {
		return nil, failf("delete user failed: user '%s' does not exist", id)
	}
	delete(s.state.Access.Users, id)
	s.state.Access.ACL = slices.DeleteFunc(s.state.Access.ACL, func(e aclEntry) bool {
		return e.Who == id || strings.HasPrefix(e.Who, id+"!")
	})
	return nil, nil
}

func tokenRow(t *token) map[string]any {
	row := map[string]any{"privsep": btoi(t.Privsep), "expire": t.Expire}
	if t.Comment != "" {
		row["comment"] = t.Comment
	}
	return row
}

func tokenRows(u *user) map[string]any {
	out := map[string]any{}
	for id, t := range u.Tokens {
		out[id] = tokenRow(t)
	}
	return out
}

func tokenList(s *Server, c *call) (any, error) {
	u, err := s.user(c.get("userid"))
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(u.Tokens)) {
		row := tokenRow(u.Tokens[id])
		row["tokenid"] = id
		rows = append(rows, row)
	}
	return rows, nil
}

func (s *Server) token(c *call) (*user, *token, error) {
	u, err := s.user(c.get("userid"))
	if err != nil {
		return nil, nil, err
	}
	t := u.Tokens[c.get("tokenid")]
	if t == nil {
		return u, nil, failf("no such token '%s' for user '%s'", c.get("tokenid"), u.ID)
	}
	return u, t, nil
}

func tokenGet(s *Server, c *call) (any, error) {
	_, t, err := s.token(c)
	if err != nil {
		return nil, err
	}
	return tokenRow(t), nil
}

func tokenCreate(s *Server, c *call) (any, error) {
	u, err := s.user(c.get("userid"))
	if err != nil {
		return nil, err
	}
	id := c.get("tokenid")
	if u.Tokens[id] != nil {
		return nil, badParam("tokenid", "Token already exists.")
	}
	t := &token{
		ID: id, Secret: newUUID(), Privsep: c.get("privsep") != "0", Comment: c.get("comment"),
		Expire: int64(c.int("expire", 0)),
	}
	u.Tokens[id] = t
	info := map[string]any{"privsep": strconv.Itoa(btoi(t.Privsep))}
	return map[string]any{"value": t.Secret, "full-tokenid": u.ID + "!" + id, "info": info}, nil
}

func tokenUpdate(s *Server, c *call) (any, error) {
	_, t, err := s.token(c)
	if err != nil {
		return nil, err
	}
	if c.has("privsep") {
		t.Privsep = c.bool("privsep")
	}
	if c.has("expire") {
		t.Expire = int64(c.int("expire", 0))
	}
	if c.has("comment") {
		t.Comment = c.get("comment")
	}
	row := tokenRow(t)
	if c.has("expire") {
		row["expire"] = c.get("expire") // as it was sent (observed)
	}
	return row, nil
}

func tokenDelete(s *Server, c *call) (any, error) {
	u, t, err := s.token(c)
	if err != nil {
		return nil, err
	}
	delete(u.Tokens, t.ID)
	s.state.Access.ACL = slices.DeleteFunc(s.state.Access.ACL, func(e aclEntry) bool { return e.Who == u.ID+"!"+t.ID })
	return nil, nil
}
