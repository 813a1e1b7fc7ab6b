package stateserver

import (
	"net"
	"net/http"
	"net/netip"
	"runtime"
)

// What one client may try: so many passwords of one user at once and then one each second, and likewise of all users.
const (
	triesOfUser    = 10
	triesOfClient  = 50
	triesPerSecond = 1
	clientPerSec   = 5
)

// auth tells who asks. Safe for concurrent use.
type auth struct {
	users    *usersFile
	ofUser   *brake
	ofClient *brake
	// checks are how many passwords are checked at once: each takes a processor, and others have work to do.
	checks chan struct{}
}

func newAuth(users *usersFile, o Options) *auth {
	return &auth{
		users: users, ofUser: newBrake(triesOfUser, triesPerSecond, o.Now), ofClient: newBrake(triesOfClient, clientPerSec, o.Now),
		checks: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// verdict is what comes of a name and a password.
type verdict int

const (
	accepted verdict = iota
	rejected
	braked
)

// who returns the user of a request.
func (a *auth) who(r *http.Request) (user, verdict) {
	name, password, given := r.BasicAuth()
	if !given {
		return user{}, rejected
	}
	t := a.users.begin(name, password)
	if t.right {
		return t.user, accepted
	}
	client := clientOf(r)
	ofUser := client + " " + name[:min(len(name), 64)]
	if !a.ofUser.take(ofUser) {
		return user{}, braked
	}
	if !a.ofClient.take(client) {
		return user{}, braked
	}
	select {
	case a.checks <- struct{}{}:
	case <-r.Context().Done():
		return user{}, braked
	}
	defer func() { <-a.checks }()
	if !a.users.check(t, password) {
		return user{}, rejected
	}
	a.ofUser.giveBack(ofUser)
	a.ofClient.giveBack(client)
	return t.user, accepted
}

// clientOf is where a request comes from: an address, or the network of one machine's addresses where it is IPv6.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil || address.Unmap().Is4() {
		return host
	}
	network, err := address.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
