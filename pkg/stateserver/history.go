package stateserver

import (
	"net/http"
	"strconv"
)

// StateList is the answer to GET /state/.
type StateList struct {
	Schema int     `json:"schema"`
	States []State `json:"states"`
}

// History is the answer to GET /history/NAME.
type History struct {
	Schema   int       `json:"schema"`
	Name     string    `json:"name"`
	Lock     *Lock     `json:"lock"` // nil: not locked
	Versions []Version `json:"versions"`
	Next     int64     `json:"next,omitempty"` // what ?before= the next page has; 0: there is none
}

// Written is the answer to a rollback.
type Written struct {
	Schema  int     `json:"schema"`
	Version Version `json:"version"`
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, u user) error {
	if r.Method != http.MethodGet {
		return notAllowed(w, r, "GET")
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	states, err := s.list(r.Context(), u.may)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, StateList{schema, states})
	return nil
}

const (
	usualPage = 100
	mostPage  = 1000
)

func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request, name string, c caller, e *entry) error {
	query, err := parameters(r, "ID", "before", "limit", "version")
	if err != nil {
		return err
	}
	number := func(key string, usual int64) int64 {
		n := usual
		if query.Has(key) && err == nil {
			if n, err = strconv.ParseInt(query.Get(key), 10, 64); err != nil || n < 1 {
				err = refuse(http.StatusBadRequest, "?%s is no number", key)
			}
		}
		return n
	}
	version, before, limit := number("version", 0), number("before", 0), number("limit", usualPage)
	if err != nil {
		return err
	}
	if c.lockID = query.Get("ID"); !validID(c.lockID) && query.Has("ID") {
		return refuse(http.StatusBadRequest, "?ID is no ID of a lock")
	}
	switch {
	case r.Method == http.MethodPost && version > 0:
		return s.serveRollback(w, r, name, c, version, e)
	case r.Method == http.MethodPost:
		return refuse(http.StatusBadRequest, "say which ?version= is to be written again")
	case r.Method != http.MethodGet:
		return notAllowed(w, r, "GET, POST")
	case version > 0:
		return s.serveVersion(w, r, name, version)
	}
	return s.servePage(w, r, name, before, int(min(limit, mostPage)))
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request, name string, before int64, limit int) error {
	newest, versions, err := s.history(r.Context(), name, before, limit)
	if err != nil {
		return err
	}
	if newest.Seq == 0 {
		return refuse(http.StatusNotFound, "there never was a state %s", name)
	}
	h := History{Schema: schema, Name: name, Lock: newest.Lock, Versions: append([]Version{}, versions...)}
	if len(versions) > 0 && versions[len(versions)-1].Number > 1 {
		h.Next = versions[len(versions)-1].Number
	}
	writeJSON(w, http.StatusOK, h)
	return nil
}

func (s *Server) serveVersion(w http.ResponseWriter, r *http.Request, name string, number int64) error {
	newest, _, err := s.newest(r.Context(), name)
	if err != nil {
		return err
	}
	v, err := s.find(r.Context(), name, newest.Version, number)
	if err != nil {
		return err
	}
	if v.deleted() {
		return refuse(http.StatusNotFound, "version %d of state %s is a deletion", number, name)
	}
	data, err := s.content(r.Context(), name, v)
	if err != nil {
		return err
	}
	writeState(w, v, data)
	return nil
}

func (s *Server) serveRollback(w http.ResponseWriter, r *http.Request, name string, c caller, number int64, e *entry) error {
	v, err := s.rollback(r.Context(), name, c, number)
	if err != nil {
		return err
	}
	e.version = v.Number
	writeJSON(w, http.StatusOK, Written{schema, v.Version})
	return nil
}
