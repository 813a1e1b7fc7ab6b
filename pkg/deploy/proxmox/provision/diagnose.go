package provision

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
)

// failure says what a failure of OpenTofu means for nodes.
func (p *Provisioner) failure(f *opentofu.Failure) error {
	return &deploy.Failure{
		Step: "tofu " + f.Step, Problems: problems(f.Diagnostics), Log: p.options.Tofu.LogPath, Err: f.Err,
	}
}

// known is an error text of Proxmox VE, the provider or the planner that has a known remedy. The texts were recorded
// from bpg/proxmox 0.111 and from PVE 8.4.
type known struct {
	pattern *regexp.Regexp
	// hint may refer to the pattern's groups as $1.
	hint string
}

// knownErrors are tried in order: the first that matches names the hint.
func knownErrors() []known {
	table := []struct{ pattern, hint string }{
		{
			`Failed to query available provider packages|could not (?:connect|query provider registry)|Failed to install provider|Could not retrieve the list of available versions`,
			"the provider cannot be fetched: check the network, or name a directory that holds it " +
				"(provider_mirror, --provider-mirror or HIVE_TEST_PROVIDER_MIRROR)",
		},
		{
			`HTTP 401`,
			"the API token is not valid: check PROXMOX_VE_API_TOKEN (USER@REALM!TOKENID=UUID), and that the token has " +
				"not expired",
		},
		{
			`HTTP 403.*Permission check failed \(([^,)]+), ([^)]+)\)`,
			"the API token lacks $2 on $1: grant it to the token itself (or make the token with privsep=0); the pveum lines that do are " +
				"what `hive-test doctor --print-role` prints",
		},
		{
			`HTTP 403`,
			"the API token may not do that: grant the missing privilege to the token itself (or make " +
				"the token with privsep=0)",
		},
		{`HTTP 59[569]|No route to host|no route to host`, "that hypervisor is down, or not reachable from the API server: bring it back (pvecm status); a cluster that has no node on it yet can leave it out of proxmox.hypervisors"},
		{
			`no quorum|/etc/pve/\S+.* Permission denied`,
			"the Proxmox cluster has no quorum: bring enough of its hosts back",
		},
		{
			`failed to read file from "([^:"]+):snippets/`,
			"the storage $1 does not keep snippets, or its snippets directory is missing: enable the content type " +
				"with `pvesm set $1 --content iso,vztmpl,snippets` (added to what it has)",
		},
		{
			`does not support (?:content type|content-type) '?snippets`,
			"enable the content type snippets on that storage",
		},
		{
			`Could not open '([^']+)'.*No such file`,
			"the image $1 is not on that hypervisor: download it there, or name another with --os-image",
		},
		{
			`(/\S+): non-existent or non-regular file`,
			"the image $1 is not on that hypervisor: download it there, or name another with --os-image",
		},
		{
			`failed to determine the datastore path`,
			"the snippet store is no directory, so it cannot keep snippets: name one that is, such as local, as " +
				"snippet_store",
		},
		{
			`volume '([^']+)' does not exist`,
			"the volume $1 is not on that hypervisor: download the image there, or name another with --os-image",
		},
		{
			`storage '([^']+)' does not exist`,
			"there is no storage $1 on that hypervisor: set its datastore_id or snippet_store",
		},
		{
			`(?:VM|CT) (\d+) already exists|VM (\d+) - .*already exists|config file already exists`,
			"the VM id is taken: `hive-test down` and a new `up` reserve other ids",
		},
		{
			`insufficient free space|No space left on device|out of space|not enough (?:free )?space`,
			"the storage is full: free some space, use a smaller --disk-size-gb, or another datastore",
		},
		{
			`Cannot allocate memory|not enough memory`,
			"that hypervisor has too little free memory: use a smaller --memory-mb or fewer nodes",
		},
		{
			`VM is locked \(([^)]+)\)|can't lock file`,
			"the VM is locked by another task: wait for it to end, or clear a stale lock with `qm unlock ID`",
		},
		{
			`bridge '([^']+)' does not exist`,
			"there is no bridge $1 on that hypervisor: set the management or data bridge",
		},
		{
			`unable to authenticate user "([^"]*)" over SSH to "([^"]*)"`,
			"$2 does not accept the key for the user $1: check PROXMOX_VE_SSH_USERNAME and the private key, and put " +
				"the public key into its authorized_keys",
		},
		{
			`knownhosts: key (?:mismatch|is unknown)|host key mismatch`,
			"the hypervisor's SSH host key changed: if it was reinstalled, remove its line from the cluster's " +
				"tofu/home/.ssh/known_hosts",
		},
		{
			`failed SSH handshake|failed to (?:open|dial) SSH|ssh: handshake failed`,
			"SSH to the hypervisor failed: check its address and port, and that it is reachable from here",
		},
		{
			`sudo:|password is required`,
			"the SSH user may not run qm, pvesm and tee with sudo: add the lines from the documentation to its sudoers",
		},
		{
			`certificate signed by unknown authority|certificate is not trusted|x509:`,
			"the API's certificate is not trusted: name the CA that signed it (--proxmox-ca-file)",
		},
		{
			`connection refused|i/o timeout|no such host|context deadline exceeded`,
			"the API cannot be reached: check the endpoint and the network",
		},
		{
			`errored\.tfstate|Failed to (?:save|persist) state`,
			"the state could not be saved, most likely for want of disk space: free some, then put " +
				"tofu/errored.tfstate in the place of terraform.tfstate",
		},
		{`write \S+: no space left on device`, "make room on the disk of the clusters directory, then repeat it"},
		{`Error acquiring the state lock`, "another tofu works on this cluster: wait for it to end"},
		{
			`(?:required plugins are not installed|doesn't match any of the checksums|Inconsistent dependency lock file)`,
			"the provider on this machine changed: remove the cluster's tofu/.terraform directory " +
				"and repeat the command",
		},
		{`Plugin did not respond`, "the provider ended unexpectedly: repeat the command; what was made so far is recorded"},
	}
	list := make([]known, 0, len(table))
	for _, row := range table {
		list = append(list, known{regexp.MustCompile(`(?s)` + row.pattern), row.hint})
	}
	return list
}

// problems turns error diagnostics into problems, those that say the same of several nodes into one.
func problems(found []opentofu.Diagnostic) []deploy.Problem {
	table := knownErrors()
	var list []deploy.Problem
	for _, d := range found {
		p := problem(d, table)
		node := nodeOf(d.Address)
		at := slices.IndexFunc(list, func(q deploy.Problem) bool {
			return node != "" && len(q.Nodes) > 0 && q.Summary == p.Summary && q.Hint == p.Hint
		})
		switch {
		case at >= 0:
			list[at].Nodes = deploy.SortNodes(append(list[at].Nodes, node))
		case node != "":
			p.Nodes = []string{node}
			fallthrough
		default:
			list = append(list, p)
		}
	}
	return list
}

func problem(d opentofu.Diagnostic, table []known) deploy.Problem {
	p := deploy.Problem{
		Address: d.Address, Summary: condense(d), Detail: strings.TrimSpace(d.Summary + "\n" + d.Detail),
	}
	// Texts are wrapped at a width that depends on who prints them: match with every line end as a space.
	text := strings.Join(strings.Fields(p.Detail), " ")
	for _, k := range table {
		if m := k.pattern.FindStringSubmatchIndex(text); m != nil {
			p.Hint = string(k.pattern.ExpandString(nil, k.hint, text, m))
			break
		}
	}
	return p
}

var (
	attemptPrefix = regexp.MustCompile(`All attempts fail:\s*(#\d+: )?`)
	taskPrefix    = regexp.MustCompile(`task "?UPID[^"\s]*"? failed to complete with exit code: `)
	usageNoise    = regexp.MustCompile(`(\S.*?) 400 Parameter verification failed\..*`)
	responseNoise = regexp.MustCompile(`received an HTTP (\d+) response - Reason: `)
)

// condense makes one line of a diagnostic: what the provider was doing, and Proxmox VE's own words.
func condense(d opentofu.Diagnostic) string {
	detail, _, _ := strings.Cut(d.Detail, "task log:")
	text := strings.TrimSpace(d.Summary)
	if detail = strings.Join(strings.Fields(detail), " "); detail != "" {
		text += ": " + detail
	}
	text = strings.Join(strings.Fields(text), " ")
	text = attemptPrefix.ReplaceAllString(text, "")
	text = taskPrefix.ReplaceAllString(text, "")
	// What follows an import that failed is only a consequence, and a usage text.
	text = usageNoise.ReplaceAllString(text, "$1")
	text = responseNoise.ReplaceAllString(text, "HTTP $1 ")
	const limit = 400
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit]) + "…"
	}
	return text
}

// passingTexts match what goes away by itself. Everything else fails at once: a second try would only cost time or,
// where an id turned out to be taken, do harm. The texts were recorded from PVE 8.4 and bpg/proxmox 0.111.
func passingTexts() *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.Join([]string{
		`can't lock file '[^']*' - got timeout`, `got lock request timeout`, // a VM, a storage or user.cfg is in use
		`got no worker upid`, `start worker failed`, // the daemon could not fork
		// a proxy before the API did not reach it
		`HTTP 50[234]`,
		// the API server did not reach the hypervisor
		`HTTP 59[569]`, `\b59[569] (?:Connection|No route|Broken pipe|Too many)`,
		// the answer was lost
		`connection reset by peer`, `(?:: |\b)EOF\b`, `server closed idle connection`, `broken pipe`,
	}, "|"))
}

// passing reports whether all that went wrong goes away by itself.
func passing(err error) bool {
	failure, ok := errors.AsType[*deploy.Failure](err)
	if !ok || len(failure.Problems) == 0 || failure.Step == "tofu init" {
		return false
	}
	texts := passingTexts()
	return !slices.ContainsFunc(failure.Problems, func(p deploy.Problem) bool {
		text := strings.Join(strings.Fields(p.Detail), " ")
		return !texts.MatchString(text) || strings.Contains(text, "already exists")
	})
}
