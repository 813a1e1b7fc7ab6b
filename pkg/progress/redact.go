package progress

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// Secrets shorter than this are not masked: they would hide half of every message and protect nothing.
const minSecret = 4

// Shorter lines of a secret of several lines are found in any text.
const minSecretLine = 8

// A piece of base64 shorter than this matches by chance.
const minBase64 = 8

// Redact returns a Sink that masks secrets by value in every text of an event before it goes on: as they are, in URLs,
// in JSON strings, and in base64, on its own or inside a longer encoded text (as in an Authorization header). Secrets
// of several lines (keys) are masked line by line too, because output arrives that way. Secrets of fewer than 4
// characters are left alone, and so are cluster, verb and phase: their values are names that a reader keys on, chosen
// from validated sets, and a weak secret that equals one must not break every report. A secret may become known during a
// run.
func Redact(next Sink, secrets *Secrets) Sink {
	return SinkFunc(func(e Event) { next.Emit(secrets.MaskEvent(e)) })
}

// MaskEvent returns e as Redact would pass it on.
func (s *Secrets) MaskEvent(e Event) Event {
	if s == nil {
		return e
	}
	masker := s.current()
	if strings.ContainsRune(e.Output, '\x1b') {
		e.Output = masker.maskColored(e.Output)
	}
	for _, field := range []*string{
		&e.Step, &e.Node, &e.Suite, &e.Name, &e.Message, &e.Error, &e.Hint, &e.RunDir, &e.Endpoint, &e.Output, &e.File,
		&e.Command, &e.Asked, &e.Run,
	} {
		if *field != "" {
			*field = masker.Mask(*field)
		}
	}
	e.Problem, e.Explanation = e.Problem.mapped(masker.Mask), e.Explanation.mapped(masker.Mask)
	e.Matrix = e.Matrix.mapped(masker.Mask)
	e.Settings, e.Flags = mapSettings(e.Settings, masker.Mask), mapAll(e.Flags, masker.Mask)
	return e
}

// mapSettings returns a copy with every value and source changed by change.
func mapSettings(settings []Setting, change func(string) string) []Setting {
	settings = slices.Clone(settings)
	for i, s := range settings {
		settings[i].Value, settings[i].From = change(s.Value), change(s.From)
	}
	return settings
}

// Masker is what Redact uses on one text, for texts that are not events (files of evidence).
type Masker struct {
	replacer *strings.Replacer
	starts   [1 << 16 / 64]uint64 // a bit for each two bytes that a form of a secret begins with
	forms    map[uint16][]string  // by these two bytes
}

// NewMasker returns a Masker of secrets.
func NewMasker(secrets []string) *Masker {
	var forms []string
	for _, secret := range secrets {
		forms = append(forms, formsOf(secret)...)
	}
	// At one place the first match wins, so the longest goes first: a secret may contain another.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	m := &Masker{forms: map[uint16][]string{}}
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, Redacted)
		start := uint16(form[0])<<8 | uint16(form[1]) // none is shorter than minSecret
		m.starts[start/64] |= 1 << (start % 64)
		m.forms[start] = append(m.forms[start], form)
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// Mask returns text without the secrets.
func (m *Masker) Mask(text string) string {
	if !m.finds(text) { // nearly always, and known much sooner than the replacer would know
		return text
	}
	return m.replacer.Replace(text)
}

// maskColored is Mask for text with terminal escapes, which is cleaned of them where a secret has some within it.
func (m *Masker) maskColored(text string) string {
	masked, plain := m.Mask(text), m.Mask(Clean(text))
	if Clean(masked) != plain {
		return plain
	}
	return masked
}

// finds tells whether a form of a secret is in text.
func (m *Masker) finds(text string) bool {
	for i := 1; i < len(text); i++ {
		start := uint16(text[i-1])<<8 | uint16(text[i])
		if m.starts[start/64]&(1<<(start%64)) == 0 {
			continue
		}
		for _, form := range m.forms[start] {
			if strings.HasPrefix(text[i-1:], form) {
				return true
			}
		}
	}
	return false
}

func formsOf(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < minSecret {
		return nil
	}
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:],
		inJSON(secret, false), inJSON(secret, true),
	}
	forms = append(forms, inBase64(secret)...)
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			line = strings.TrimSpace(line)
			// the frame of a PEM block is no secret
			if len(line) >= minSecretLine && !strings.HasPrefix(line, "-----") {
				forms = append(forms, formsOf(line)...)
			}
		}
	}
	return forms
}

func inJSON(secret string, html bool) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(html)
	if err := encoder.Encode(secret); err != nil {
		return secret
	}
	quoted := strings.TrimSpace(b.String())
	return quoted[1 : len(quoted)-1]
}

// inBase64 returns the characters that stand for secret in any base64 text that contains it: they depend on how many
// bytes come before it, modulo 3, and the characters shared with its neighbours are left out.
func inBase64(secret string) []string {
	var forms []string
	for before := range 3 {
		padded := []byte(strings.Repeat("\x00", before) + secret)
		first := (before*8 + 5) / 6
		last := len(padded) * 8 / 6
		if last-first < minBase64 {
			continue
		}
		forms = append(forms,
			base64.RawStdEncoding.EncodeToString(padded)[first:last],
			base64.RawURLEncoding.EncodeToString(padded)[first:last])
	}
	return forms
}
