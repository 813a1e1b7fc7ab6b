package suite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What suites get of the environment of who runs hive-test is listed here: it may hold the token of a hypervisor, which
// is no suite's, and the keys of much else. Options.SuiteEnv adds to it.

// passedNames are variables that suites get by their names.
const passedNames = `
	PATH HOME USER LOGNAME SHELL HOSTNAME TMPDIR TMP TEMP TERM COLORTERM COLUMNS LINES TZ LANG LANGUAGE
	NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS BASH_ENV
	LD_LIBRARY_PATH LD_PRELOAD SSH_AUTH_SOCK SSH_AGENT_PID SSH_ASKPASS SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE
	CI CONTINUOUS_INTEGRATION WORKSPACE NODE_NAME EXECUTOR_NUMBER BUILDKITE TF_BUILD TRAVIS DRONE APPVEYOR
	GO111MODULE GOARCH GOAUTH GOBIN GOCACHE GOCACHEPROG GODEBUG GOENV GOEXPERIMENT GOFIPS140 GOFLAGS GOGC GOINSECURE GOMAXPROCS GOMEMLIMIT
	GOMODCACHE GONOPROXY GONOSUMDB GOOS GOPATH GOPRIVATE GOPROXY GOROOT GOSUMDB GOTMPDIR GOTOOLCHAIN GOTRACEBACK GOVCS GOWORK
	CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH VIRTUAL_ENV JAVA_HOME JAVA_OPTS M2_HOME KUBECONFIG SOURCE_DATE_EPOCH`

// passedPrefixes begin the names of variables that suites get unless they look secret; ownPrefixes, of those that they
// get anyway.
const (
	passedPrefixes = `
	LC_ XDG_ SUDO_ BASH_FUNC_ AWS_ GIT_ SSH_ CGO_ PYTHON PYTEST_ PYENV_ PIP_ UV_ CONDA_ NODE_ NPM_ NVM_ MAVEN_ GRADLE_ CARGO_ RUST RBENV_
	GEM_ BUNDLE_ PERL BATS_ NIX_ DOCKER_ CONTAINER_ ANSIBLE_ DYLD_ COVERAGE_
	CI_ GITHUB_ RUNNER_ ACTIONS_ GITLAB_ GITEA_ FORGEJO_ BUILD_ JENKINS_ JOB_ BUILDKITE_ CIRCLE TRAVIS_ DRONE_ TEAMCITY_ BITBUCKET_ APPVEYOR_
	SYSTEM_ AGENT_`
	ownPrefixes = `HIVE_ SPINIFEX_ DDIL_`
)

// proxies are passed in capitals, too.
const proxies = `http_proxy https_proxy ftp_proxy all_proxy no_proxy`

// hypervisor is how the variables begin that are about Proxmox VE, though HIVE_ begins them.
const hypervisor = "HIVE_TEST_PROXMOX_"

var secretName = regexp.MustCompile(`(?i)TOKEN|SECRET|PASSW(OR)?D|CREDENTIAL|PRIVATE|JWT|_(KEY|PASS|AUTH)$`)

// SecretName reports whether a variable of that name most likely holds a secret.
func SecretName(name string) bool { return secretName.MatchString(name) }

// passed tells whether suites get a variable of who runs hive-test.
func passed(name string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(strings.ToUpper(name), prefix) }
	switch {
	case slices.Contains(strings.Fields(passedNames), name),
		slices.Contains(strings.Fields(proxies), strings.ToLower(name)):
		return true
	case slices.ContainsFunc(strings.Fields(ownPrefixes), begins):
		return !begins(hypervisor)
	}
	return slices.ContainsFunc(strings.Fields(passedPrefixes), begins) && !SecretName(name)
}

var namedVariable = regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)`)

// ofShell are variables that a shell itself sets.
const ofShell = `PWD OLDPWD SHLVL _ IFS UID EUID PPID RANDOM SECONDS LINENO OPTARG OPTIND`

// heldBack are of names of variables those that are set here, but not in the suite's environment.
func heldBack(names, here, there []string) (missing []string) {
	for _, name := range names {
		_, set := lookUp(here, name)
		_, passed := lookUp(there, name)
		if set && !passed && !slices.Contains(missing, name) && !slices.Contains(strings.Fields(ofShell), name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// namedBy returns the names of variables that a command line names.
func namedBy(command string) (names []string) {
	for _, match := range namedVariable.FindAllStringSubmatch(command, -1) {
		names = append(names, match[1])
	}
	return names
}

// warnOfHeldBack says which variables of who runs this a suite uses and does not get: by its command line, and by the
// script that this runs.
func (r *runner) warnOfHeldBack(command string, env []string, warn func(string)) {
	here := r.inherited()
	byLine := heldBack(namedBy(command), here, env)
	for _, name := range byLine {
		warn(fmt.Sprintf("$%s is set here, and suites do not get it: --suite-env %s passes it", name, name))
	}
	s, ok := scriptOf(command, r.Dir)
	if !ok {
		return
	}
	for _, name := range heldBack(s.variables(), here, env) {
		if !slices.Contains(byLine, name) && !slices.Contains(s.given, name) {
			warn(fmt.Sprintf(
				"$%s, which %s uses, is set here, and suites do not get it: --suite-env %s passes it", name, s.name, name))
		}
	}
}
