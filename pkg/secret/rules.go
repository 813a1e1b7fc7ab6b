package secret

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/progress"
	"hive-test/pkg/secret/sops"
)

// RulesFile is where SOPS finds for whom new files are encrypted: beside them, or in a directory above.
const RulesFile = ".sops.yaml"

// ErrNoRules means that no RulesFile says for whom a file is to be encrypted.
var ErrNoRules = errors.New("no " + RulesFile + " says for whom it is to be encrypted")

// RulesFor finds the RulesFile that counts for a file. Its error is ErrNoRules where there is none.
func RulesFor(file string) (path string, err error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	for dir := filepath.Dir(absolute); ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, RulesFile)
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return path, err
		}
		if dir == filepath.Dir(dir) {
			return "", progress.WithHint(ErrNoRules, "hive-test secrets init makes one")
		}
	}
}

// RecipientsFor are those for whom the first rule that fits a file has it encrypted.
func RecipientsFor(file string) ([]sops.Recipient, error) {
	path, err := RulesFor(file)
	if err != nil {
		return nil, err
	}
	raw, err := readAll(path)
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	below, err := filepath.Rel(filepath.Dir(path), absolute)
	if err != nil {
		return nil, err
	}
	recipients, err := recipientsBy(raw, below)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return recipients, nil
}

// creationRule is what a rule says that can be done here.
type creationRule struct {
	Path string         `yaml:"path_regex"`
	Age  any            `yaml:"age"`
	More map[string]any `yaml:",inline"`
}

func recipientsBy(raw []byte, path string) ([]sops.Recipient, error) {
	var rules struct {
		Rules []creationRule `yaml:"creation_rules"`
	}
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		return nil, errors.New("it is not a YAML file with creation_rules")
	}
	for _, rule := range rules.Rules {
		pattern, err := regexp.Compile(rule.Path)
		if err != nil {
			return nil, fmt.Errorf("path_regex: %w", err)
		}
		if !pattern.MatchString(filepath.ToSlash(path)) {
			continue
		}
		if len(rule.More) > 0 {
			return nil, &sops.UnsupportedError{What: fmt.Sprintf("its rule for %s asks for more than keys of age", path)}
		}
		return rule.recipients()
	}
	return nil, progress.WithHint(fmt.Errorf("no rule is for %s", path), "add one to creation_rules, with path_regex and age")
}

func (r creationRule) recipients() (list []sops.Recipient, err error) {
	var texts []string
	switch age := r.Age.(type) {
	case string:
		texts = strings.Split(age, ",")
	case []any:
		for _, text := range age {
			texts = append(texts, fmt.Sprint(text))
		}
	}
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		recipient, err := ParseRecipient(text)
		if err != nil {
			return nil, fmt.Errorf("age: %w", err)
		}
		list = append(list, recipient)
	}
	if len(list) == 0 {
		err = errors.New("age: the rule names no public key")
	}
	return list, err
}

// usualNames are files that a rule made here is for.
const usualNames = `\.sops\.(ya?ml|json|env)$`

// NewRules is a RulesFile by which a file, and others with usual names, are encrypted for a recipient.
func NewRules(file, recipient string) []byte {
	pattern := usualNames
	if !regexp.MustCompile(usualNames).MatchString(file) {
		pattern = "(" + usualNames + "|(^|/)" + regexp.QuoteMeta(filepath.Base(file)) + "$)"
	}
	return fmt.Appendf(nil, "# For whom new files are encrypted, as SOPS reads it: public keys of age, several with commas.\n"+
		"creation_rules:\n    - path_regex: '%s'\n      age: %s\n", pattern, recipient)
}
