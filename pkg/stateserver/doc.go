// Package stateserver serves the states of OpenTofu and Terraform to their HTTP backend, and keeps every version of them.
// It knows no cluster and no command line: it is given a Storage, users and a place to log to.
//
// # HTTP API
//
// Every request but /healthz, /metrics and /certificate needs basic auth. A NAME is lower-case letters, digits, '.', '_' and
// '-' in parts with '/' between, as ci/dev1; a user may have some names only. Methods are upper case. Errors are text, but
// for 423, which has the lock that is in the way.
//
//	GET    /state/NAME        the state; 404: none. Content-MD5 is of the body, State-Version its number
//	POST   /state/NAME?ID=ID  writes a state. Without ?ID where nothing is locked, else with the ID of the lock. Content-MD5
//	                          is checked where it is sent. 409: a serial that is not higher, another lineage, or a lock that
//	                          is not held any longer; 423: locked by another. The bytes that are there already are fine
//	DELETE /state/NAME?ID=ID  the state is gone; its versions stay
//	LOCK   /state/NAME        the body is the lock, JSON with an ID. 423 with the holder's. The same ID again is fine
//	UNLOCK /state/NAME        the body is JSON with the ID, or ?ID=ID. 409: locked by another, or not locked
//	GET    /state/            the states of this user: {"schema": 1, "states": [State]}
//	GET    /history/NAME      its versions, newest first: {"schema": 1, "name": …, "lock": …, "versions": [Version], "next": N}.
//	                          ?limit=N (100, at most 1000) so many, ?before=N those below a version; next is the before of
//	                          the next page, if there is one
//	GET    /history/NAME?version=N   the state as it was
//	POST   /history/NAME?version=N&ID=ID  writes the state of version N again, with a serial that is higher than the
//	                          current one: {"schema": 1, "version": Version}. 409: version N is of a deletion, or encrypted
//	                          by OpenTofu, which has the serial among what it encrypts
//	GET    /healthz           200 if the storage can be written, else 503; without auth
//	GET    /metrics           for Prometheus; without auth, and without a name of a user or of a state
//	GET    /certificate       the server's certificate, PEM, to be compared with the fingerprint that it prints; without auth
//
// # How it keeps what it has acknowledged
//
// All that happens to a state is a numbered record: of a lock, an unlocking, a new version. A record is written only if there
// is none of its number, which is the one thing that a Storage must be able to decide among several writers. It says what the
// state is after it: who holds the lock, and which object is the current version. So the newest record is all that is to be
// read, a write is checked against the very lock that it relies on, and several servers can share one storage. Nothing
// depends on clocks: times are for people.
//
// The bytes of a version are an object of their own that is complete before the record that makes it current. Old records are
// deleted, versions never. A server that was asleep could write a record where one was deleted; so each write is followed by
// a look whether there are newer ones, and counts only if there are none, or if the next one was made after it.
package stateserver
