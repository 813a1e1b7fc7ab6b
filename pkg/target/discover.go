package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// Discovery finds out what a configuration for a Proxmox VE has to say, by what the Proxmox VE has. It changes nothing
// there.
type Discovery struct {
	// Settings are what is given already.
	Settings config.Settings
	// Hypervisors are those that nodes may land on, NAME or NAME=ADDRESS or NAME=ADDRESS:PORT; empty: to be chosen.
	Hypervisors []string
	// Datastore and SnippetStore are the storages of every hypervisor for disks and for snippets; empty: to be chosen.
	Datastore, SnippetStore string
	// Ask asks a person. Nil: nobody can be asked, and what has several answers is an error.
	Ask  Asker
	Sink progress.Sink
	// Learn is told of secrets before anything can show them.
	Learn func(secrets ...string)
}

// Found is what a discovery has found.
type Found struct {
	Entries []config.Entry
	Token   string
	Asked   bool // the token was asked for: it is in no environment and no file yet
}

// Run finds out everything, or returns all that nobody has decided as one error, each with its choices.
func (d Discovery) Run(ctx context.Context) (Found, error) {
	s := &search{Discovery: d, ctx: ctx, access: d.Settings.Proxmox, token: d.Settings.Proxmox.Token.Reveal()}
	for _, step := range []func() error{
		s.findEndpoint, s.findTrust, s.findToken, s.connect, s.findHypervisors, s.look, s.findPlaces, s.findLogin,
	} {
		if err := step(); err != nil {
			return Found{}, s.failed(err)
		}
	}
	if err := errors.Join(s.problems...); err != nil {
		return Found{}, configError(err)
	}
	return Found{Entries: s.entries, Token: s.token, Asked: s.asked}, nil
}

// search is a discovery under way.
type search struct {
	Discovery
	ctx    context.Context
	access config.Proxmox // endpoint, and how its certificate is trusted
	token  string
	asked  bool
	client *api.Client

	hosts []offer // that nodes may land on
	vms   []api.VM
	given bool // the hypervisors came with all that is to be said of them

	entries  []config.Entry
	problems []error
}

// offer is what one hypervisor has.
type offer struct {
	placement.Hypervisor
	storages []api.Storage
	bridges  []string
	images   []string // volumes that disks can be made of
}

// failed is an error of the way to Proxmox VE, or of the end of ctx.
func (s *search) failed(err error) error {
	if cause := context.Cause(s.ctx); errors.Is(s.ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, cause) {
		return configError(fmt.Errorf("%w: %w", cause, err)) // what did not answer is worth knowing
	} else if cause != nil {
		return cause
	}
	if _, told := errors.AsType[*Error](err); told {
		return err
	}
	return configError(err)
}

// say puts a setting into the configuration.
func (s *search) say(key string, value any, note string) {
	s.entries = append(s.entries, config.Entry{Key: key, Value: value, Note: note})
}

// answer is the answer to a question: the given one, that of a person, or the only sensible one. What nobody has
// decided is one of the problems.
func (s *search) answer(q Question, given string) (string, error) {
	switch {
	case given != "":
		if err := q.Check(given); err != nil {
			s.problems = append(s.problems, fmt.Errorf("%s: %w", q.Flag, err))
		}
		return given, nil
	case s.Ask != nil && (len(q.Choices) != 1 || q.Usual == ""):
		return s.Ask(s.ctx, q)
	case q.Usual != "":
		return q.Usual, nil
	case len(q.Choices) == 0:
		s.problems = append(s.problems, fmt.Errorf("%s: give it with %s", q.Text, q.Flag))
	default:
		s.problems = append(s.problems, fmt.Errorf("%s: there are several: %s; choose with %s", q.Text, q.list(), q.Flag))
	}
	return "", nil
}

func (s *search) findEndpoint() error {
	q := Question{Text: "URL of the Proxmox VE API, like https://pve1:8006", Flag: "--proxmox-endpoint"}
	switch {
	case s.access.Endpoint != "":
	case s.Ask == nil:
		return progress.WithHint(
			fmt.Errorf("no Proxmox VE endpoint: give the %s, with %s", q.Text, q.Flag),
			"--sim writes a file for the simulator, --from-env one of a file of variables",
		)
	default:
		var err error
		if s.access.Endpoint, err = s.Ask(s.ctx, q); err != nil {
			return err
		}
	}
	if !strings.Contains(s.access.Endpoint, "://") {
		if _, _, err := net.SplitHostPort(s.access.Endpoint); err != nil {
			s.access.Endpoint += ":8006"
		}
		s.access.Endpoint = "https://" + s.access.Endpoint
	}
	s.access.Endpoint = api.BaseURL(s.access.Endpoint)
	s.say("proxmox.endpoint", s.access.Endpoint, "")
	return nil
}

// findTrust lets a person decide on a certificate that this machine does not trust by itself.
func (s *search) findTrust() error {
	if s.access.CAFile != "" || s.access.Fingerprint != "" || s.access.Insecure {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.access.CallTimeout)
	defer cancel()
	fingerprint, distrusted, err := api.ServerCertificate(ctx, s.access.Endpoint)
	if err != nil || distrusted == nil {
		return err
	}
	if s.Ask == nil {
		return distrusted
	}
	yes, err := s.Ask(s.ctx, Question{Text: fmt.Sprintf(
		"This machine does not know the certificate of %s.\nIts SHA-256 fingerprint is\n  %s\n"+
			"On the hypervisor, this prints it:\n  %s\nTrust it", s.access.Endpoint, fingerprint, api.FingerprintCommand(),
	), Flag: "--proxmox-fingerprint", YesNo: true})
	if err != nil {
		return err
	}
	if yes != "yes" {
		return progress.WithHint(
			fmt.Errorf("the certificate of %s is not trusted", s.access.Endpoint), progress.HintOf(distrusted),
		)
	}
	s.access.Fingerprint = fingerprint
	for _, f := range api.CheckPinnedName(ctx, s.access.Endpoint, fingerprint) {
		if f.Fix != "" {
			progress.Warn(s.Sink, f.Detail, f.Fix)
		}
	}
	return nil
}

// findToken takes the token, or the file that holds it.
func (s *search) findToken() error {
	for key, value := range map[string]string{
		"proxmox.ca_file": s.access.CAFile, "proxmox.fingerprint": s.access.Fingerprint,
	} {
		if value != "" {
			s.say(key, value, "")
		}
	}
	if s.access.Insecure {
		s.say("proxmox.insecure", true, "")
	}
	if s.token != "" {
		return nil
	}
	if err := s.access.TokenErr; err != nil && s.Ask == nil {
		return err
	}
	if s.Ask == nil {
		return progress.WithHint(
			errors.New(api.NoToken),
			"`hive-test doctor --print-role` prints how to make a token",
		)
	}
	return s.askToken()
}

// tokenPattern is user@realm!name=secret: a path may have a = in it, too.
var tokenPattern = regexp.MustCompile(`^[^\s:/]+@[^\s:/!]+![^\s:/=]+=\S+$`)

// askToken asks until something of the form of a token is given, or a file that can be read.
func (s *search) askToken() error {
	for {
		text, err := s.Ask(s.ctx, Question{
			Text: "API token user@realm!name=secret (not shown), or a file that holds it",
			Flag: "--proxmox-token-file", Secret: true,
		})
		if err != nil {
			return err
		}
		s.Learn(TokenSecrets(text)...)
		if tokenPattern.MatchString(text) {
			s.token, s.asked = text, true
			return nil
		}
		if raw, err := os.ReadFile(atHome(text)); err == nil {
			s.token = strings.TrimSpace(string(raw))
			s.Learn(TokenSecrets(s.token)...)
			if !strings.HasPrefix(text, "~/") {
				text = config.Absolute(text)
			}
			s.say("proxmox.token_file", text, "")
			return nil
		}
		progress.Warn(s.Sink, "this is neither a token, user@realm!name=secret, nor a file that can be read", "")
	}
}

// connect logs in.
func (s *search) connect() error {
	client, err := api.New(api.Options{
		Endpoint: s.access.Endpoint, Token: s.token, CAFile: s.access.CAFile, Fingerprint: s.access.Fingerprint,
		Insecure: s.access.Insecure, Timeout: s.access.CallTimeout,
	})
	if err != nil {
		return err
	}
	s.client = client
	version, err := client.Version(s.ctx)
	if err != nil {
		detail, fix := api.AccessError(err, client.Endpoint(), client.TokenID())
		return progress.WithHint(errors.New(detail), fix)
	}
	progress.Infof(s.Sink, "Proxmox VE %s accepts the API token %s", version.Version, client.TokenID())
	return nil
}

// findHypervisors chooses where nodes may land: on all that are online, where nobody says otherwise.
func (s *search) findHypervisors() error {
	listed, err := s.client.Hypervisors(s.ctx)
	if err != nil {
		return err
	}
	status, _ := s.client.ClusterStatus(s.ctx) // where the token may not see addresses, they are not written
	q := Question{Text: "Hypervisors that nodes may land on", Flag: "--hypervisors", Several: true}
	var names []string
	for _, h := range listed {
		if h.Online {
			q.Choices = append(q.Choices, Choice{h.Name, status.Addresses[h.Name]})
			names = append(names, h.Name)
		}
	}
	if len(names) == 0 {
		return progress.WithHint(errors.New("no hypervisor is online, or the token may not see them"),
			"`hive-test doctor --print-role` prints how to give the token its rights")
	}
	q.Usual = strings.Join(names, ",")
	if known := s.Settings.Proxmox.Hypervisors; len(s.Hypervisors) == 0 && len(known) > 0 {
		s.given = true
		for _, h := range known {
			s.hosts = append(s.hosts, offer{Hypervisor: h})
		}
		return q.Check(strings.Join(placement.Names(known), ","))
	}
	chosen, err := s.answer(q, strings.Join(s.Hypervisors, ","))
	if err != nil || len(s.problems) > 0 {
		return errors.Join(err, errors.Join(s.problems...))
	}
	for part := range strings.SplitSeq(chosen, ",") {
		h, err := config.ParseHypervisor(part)
		if err != nil {
			return fmt.Errorf("--hypervisors: %w", err)
		}
		h.Address = cmp.Or(h.Address, status.Addresses[h.Name])
		s.hosts = append(s.hosts, offer{Hypervisor: h})
	}
	return nil
}

// look asks every chosen hypervisor what it has, all at once.
func (s *search) look() error {
	errs := make([]error, len(s.hosts)+1)
	var wait sync.WaitGroup
	wait.Go(func() { s.vms, errs[len(s.hosts)] = s.client.VMs(s.ctx) })
	for i := range s.hosts {
		wait.Go(func() { errs[i] = s.hosts[i].ask(s.ctx, s.client) })
	}
	wait.Wait()
	err := errors.Join(errs...)
	if errors.Is(err, api.ErrUnreachable) {
		err = progress.WithHint(err, "leave out what does not answer: name the others with --hypervisors")
	}
	if blind := func(o offer) bool { return len(o.storages) == 0 }; err == nil && slices.ContainsFunc(s.hosts, blind) {
		return progress.WithHint(
			fmt.Errorf("the API token %s may see no storage of %s", s.client.TokenID(), s.names()),
			"`hive-test doctor --print-role` prints the commands that give it its rights",
		)
	}
	return err
}

// ask asks for storages, bridges and the images that are there.
func (o *offer) ask(ctx context.Context, client *api.Client) error {
	var err error
	if o.bridges, err = client.Bridges(ctx, o.Name); err != nil {
		return fmt.Errorf("the bridges of %s: %w", o.Name, err)
	}
	if o.storages, err = client.Storages(ctx, o.Name); err != nil {
		return fmt.Errorf("the storages of %s: %w", o.Name, err)
	}
	for _, storage := range o.storages {
		for _, kind := range []string{"iso", "import"} {
			if !storage.Active || !storage.Holds(kind) {
				continue
			}
			volumes, err := client.Content(ctx, o.Name, storage.Name, kind)
			if err != nil {
				return fmt.Errorf("the images of %s: %w", o.Name, err)
			}
			for _, v := range volumes {
				if !strings.HasSuffix(v.ID, ".iso") { // that of an installer
					o.images = append(o.images, v.ID)
				}
			}
		}
	}
	return nil
}

// everywhere are the values that all chosen hypervisors have.
func (s *search) everywhere(of func(offer) []string) []string {
	var common []string
	for i, host := range s.hosts {
		values := of(host)
		if i == 0 {
			common = values
			continue
		}
		common = slices.DeleteFunc(slices.Clone(common), func(v string) bool { return !slices.Contains(values, v) })
	}
	return common
}

// findPlaces chooses what is needed on all hypervisors.
func (s *search) findPlaces() error {
	for _, step := range []func() error{
		s.findImage, s.findBridges, s.findStorages, s.findPool,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// findImage chooses what nodes boot from: an image that every hypervisor has, or a template, wherever it is.
func (s *search) findImage() error {
	if name := s.Settings.TemplateName(); name != "" {
		s.say("template", name, "")
		return nil
	}
	q := Question{Text: "Cloud image or template that nodes boot from", Flag: "--os-image or --template"}
	for _, image := range s.everywhere(func(o offer) []string { return o.images }) {
		q.Choices = append(q.Choices, Choice{Value: image})
	}
	for _, vm := range s.vms {
		if vm.Template && vm.Type == "qemu" {
			q.Choices = append(q.Choices, Choice{strconv.Itoa(vm.VMID), "template " + vm.Name + " on " + vm.Hypervisor})
		}
	}
	given := ""
	switch {
	case s.Settings.TemplateID() != 0:
		given = s.Settings.Template
	case s.Settings.Given("os_image"):
		given = s.Settings.OSImage
	case len(q.Choices) == 0:
		s.problems = append(s.problems, fmt.Errorf(
			"no cloud image is on every one of %s, and there is no template: put one there, such as %s (see `pvesm path`)",
			s.names(), placement.DefaultImage,
		))
		return nil
	}
	chosen, err := s.answer(q.settle(placement.DefaultImage), given)
	if _, numeric := strconv.Atoi(chosen); numeric == nil {
		s.say("template", chosen, "")
		s.Settings.Template = chosen
	} else if chosen != "" {
		s.say("os_image", chosen, others(q, chosen))
		s.Settings.OSImage = chosen
	}
	return err
}

func (s *search) names() string {
	var names []string
	for _, host := range s.hosts {
		names = append(names, host.Name)
	}
	return strings.Join(names, ", ")
}

func others(q Question, chosen string) string {
	if list := q.others(chosen); list != "" {
		return "there is also: " + list
	}
	return ""
}

func (s *search) findBridges() error {
	err := s.findBridge(
		"management_bridge", "--management-bridge", "Bridge of the first NIC", s.Settings.ManagementBridge,
	)
	if err != nil {
		return err
	}
	return s.findBridge("data_bridge", "--data-bridge", "Bridge of the second NIC", s.Settings.DataBridge)
}

// findBridge chooses a bridge that all hypervisors have.
func (s *search) findBridge(key, flag, text, setting string) error {
	q := Question{Text: text, Flag: flag}
	for _, bridge := range s.everywhere(func(o offer) []string { return o.bridges }) {
		q.Choices = append(q.Choices, Choice{Value: bridge})
	}
	given := ""
	if s.Settings.Given(key) {
		given = setting
	} else if len(q.Choices) == 0 {
		s.problems = append(s.problems, fmt.Errorf(
			"%s: %s have no bridge in common that the token may use (SDN.Use)", flag, s.names(),
		))
		return nil
	}
	chosen, err := s.answer(q.settle(setting), given)
	if chosen != "" {
		s.say(key, chosen, others(q, chosen))
	}
	return err
}

// findStorages chooses where disks and snippets go.
func (s *search) findStorages() error {
	if s.given {
		if s.Datastore != "" || s.SnippetStore != "" {
			return errors.New("--datastore and --snippet-store go with --hypervisors: those of the environment have theirs")
		}
		s.say("proxmox.hypervisors", s.Settings.Proxmox.Hypervisors, "")
		return nil
	}
	disks, err := s.findStorage("images", "Storage for disks", "--datastore", s.Datastore, placement.DefaultDatastore)
	if err != nil {
		return err
	}
	snippets := make([]string, len(s.hosts))
	if s.Settings.CloudInit == cluster.CloudInitSnippet {
		snippets, err = s.findStorage(
			"snippets", "Storage for cloud-init snippets", "--snippet-store", s.SnippetStore, placement.DefaultSnippetStore,
		)
	}
	var list []placement.Hypervisor
	for i, host := range s.hosts {
		h := host.Hypervisor
		h.Datastore, h.SnippetStore = disks[i], snippets[i]
		list = append(list, h)
	}
	s.say("proxmox.hypervisors", list, "")
	return err
}

// findStorage chooses a storage that holds a kind of content on each hypervisor: one that all have, or, where there is
// none or several are given as name=storage, one for each.
func (s *search) findStorage(kind, text, flag, given, usual string) ([]string, error) {
	chosen := make([]string, len(s.hosts))
	each, err := s.givenEach(flag, given)
	if err != nil {
		return chosen, err
	}
	common := Question{Text: text, Flag: flag}
	for _, name := range s.everywhere(func(o offer) []string { return o.holding(kind) }) {
		common.Choices = append(common.Choices, Choice{name, s.hosts[0].describe(name)})
	}
	if each == nil && len(common.Choices) > 0 {
		one, err := s.answer(common.settle(usual), given)
		return slices.Repeat([]string{one}, len(s.hosts)), err
	}
	for i, host := range s.hosts {
		q := Question{Text: text + " on " + host.Name, Flag: fmt.Sprintf("%s %s=STORAGE,…", flag, host.Name)}
		for _, name := range host.holding(kind) {
			q.Choices = append(q.Choices, Choice{name, host.describe(name)})
		}
		if len(q.Choices) == 0 {
			s.problems = append(s.problems, holdsNone(kind, flag, host.Name))
			continue
		}
		if chosen[i], err = s.answer(q.settle(usual), each[host.Name]); err != nil {
			return chosen, err
		}
	}
	return chosen, nil
}

// givenEach takes name=storage,name=storage apart; nil: nothing was given so.
func (s *search) givenEach(flag, given string) (map[string]string, error) {
	if !strings.Contains(given, "=") {
		return nil, nil
	}
	each := map[string]string{}
	for pair := range strings.SplitSeq(given, ",") {
		name, storage, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !slices.ContainsFunc(s.hosts, func(o offer) bool { return o.Name == name }) {
			return nil, fmt.Errorf("%s: %q is not one of %s", flag, name, s.names())
		}
		each[name] = storage
	}
	return each, nil
}

// holdsNone is the problem of a hypervisor without a storage for a kind of content.
func holdsNone(kind, flag, name string) error {
	problem := fmt.Errorf("%s: no storage of %s holds %s: pvesm set STORAGE --content …,%s", flag, name, kind, kind)
	if kind == "snippets" {
		return fmt.Errorf("%w; or --cloud-init none, with which there are no snippets", problem)
	}
	return problem
}

// holding are the storages of the hypervisor that may hold a kind of content.
func (o offer) holding(kind string) []string {
	var names []string
	for _, storage := range o.storages {
		if storage.Active && storage.Holds(kind) {
			names = append(names, storage.Name)
		}
	}
	return names
}

// describe is what a storage is, for people.
func (o offer) describe(name string) string {
	for _, storage := range o.storages {
		if storage.Name == name {
			return fmt.Sprintf("%s, %d GiB free", storage.Type, storage.Available>>30)
		}
	}
	return ""
}

// findPool lets a person choose the resource pool of the VMs. None is needed.
func (s *search) findPool() error {
	if pool := s.Settings.Proxmox.Pool; pool != "" {
		if err := s.client.HasPool(s.ctx, pool); errors.Is(err, api.ErrNotFound) {
			s.problems = append(s.problems, fmt.Errorf("--pool: pool %s does not exist: pveum pool add %s", pool, pool))
		}
		s.say("proxmox.pool", pool, "")
		return nil
	}
	pools, err := s.client.Pools(s.ctx)
	if s.Ask == nil || err != nil { // who may see none needs none
		return nil
	}
	q := Question{Text: "Resource pool of the VMs", Flag: "--pool", Choices: []Choice{{Value: "none"}}, Usual: "none"}
	for _, pool := range pools {
		if !strings.HasPrefix(pool.ID, "hive-test-") { // a lease
			q.Choices = append(q.Choices, Choice{pool.ID, pool.Comment})
		}
	}
	chosen, err := s.answer(q, "")
	if chosen != "none" && chosen != "" {
		s.say("proxmox.pool", chosen, "")
	}
	return err
}

func (s *search) ifGiven(key, value string) string {
	if s.Settings.Given(key) {
		return value
	}
	return ""
}
