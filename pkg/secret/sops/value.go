package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// What a value is, as it is written beside its ciphertext.
const (
	typeString  = "str"
	typeInt     = "int"
	typeFloat   = "float"
	typeBool    = "bool"
	typeBytes   = "bytes"
	typeTime    = "time"
	typeComment = "comment"
)

// plain is a value that is not encrypted: the text that is encrypted, and counts for the MAC, and what it is.
type plain struct {
	text string
	kind string
}

// plainOf is a scalar of a document as it is encrypted.
func plainOf(value any) (plain, error) {
	switch v := value.(type) {
	case string:
		return plain{v, typeString}, nil
	case int:
		return plain{strconv.Itoa(v), typeInt}, nil
	case float64:
		return plain{strconv.FormatFloat(v, 'f', -1, 64), typeFloat}, nil
	case bool:
		if v {
			return plain{"True", typeBool}, nil
		}
		return plain{"False", typeBool}, nil
	case time.Time:
		text, err := v.MarshalText()
		return plain{string(text), typeTime}, err
	}
	return plain{}, fmt.Errorf("a value of type %T cannot be encrypted", value)
}

// check says that the text of a decrypted value is none of its kind.
func (p plain) check() (err error) {
	switch p.kind {
	case typeString, typeBytes, typeComment:
	case typeInt:
		_, err = strconv.Atoi(p.text)
	case typeFloat:
		_, err = strconv.ParseFloat(p.text, 64)
	case typeBool:
		_, err = strconv.ParseBool(p.text)
	case typeTime:
		err = new(time.Time).UnmarshalText([]byte(p.text))
	default:
		return fmt.Errorf("its type %q is not known", p.kind)
	}
	if err != nil {
		return fmt.Errorf("it is not of its type %s", p.kind) // and is not shown
	}
	return nil
}

// encrypted is how an encrypted value is written.
var encrypted = regexp.MustCompile(`^ENC\[AES256_GCM,data:([A-Za-z0-9+/=]+),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z]+)\]$`)

// isEncrypted reports whether text is written as an encrypted value.
func isEncrypted(text string) bool { return encrypted.MatchString(text) }

// nonceSize is that of the nonces that are written, in bytes. What is read may have others.
const nonceSize = 32

// longestNonce is how many bytes a nonce that is read may have.
const longestNonce = 64

// errTampered means that a value, or the place where it stands, is not what was encrypted, or that the key is another one.
var errTampered = errors.New("it was changed or moved after it was encrypted, or is encrypted with another key")

// dataKey encrypts the values of one document.
type dataKey []byte

// newDataKey makes one.
func newDataKey() (dataKey, error) {
	key := make(dataKey, 32)
	_, err := rand.Read(key)
	return key, err
}

// seal encrypts a value for the place that context names. An empty one stays empty.
func (k dataKey) seal(p plain, context string) (string, error) {
	if p.text == "" && (p.kind == typeString || p.kind == typeComment) {
		return "", nil
	}
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return "", err
	}
	gcm, err := k.gcm(nonceSize)
	if err != nil {
		return "", err
	}
	sealed := gcm.Seal(nil, nonce, []byte(p.text), []byte(context))
	data, tag := sealed[:len(sealed)-gcm.Overhead()], sealed[len(sealed)-gcm.Overhead():]
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", text(data), text(nonce), text(tag), p.kind), nil
}

// open decrypts a value of the place that context names.
func (k dataKey) open(text, context string) (plain, error) {
	if text == "" {
		return plain{"", typeString}, nil
	}
	parts := encrypted.FindStringSubmatch(text)
	if parts == nil {
		return plain{}, errors.New("it is not encrypted, and should be")
	}
	var raw [3][]byte
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return plain{}, fmt.Errorf("it is damaged: %w", err)
		}
	}
	data, nonce, tag := raw[0], raw[1], raw[2]
	if len(nonce) == 0 || len(nonce) > longestNonce {
		return plain{}, errors.New("it is damaged: its nonce is too short or too long")
	}
	gcm, err := k.gcm(len(nonce))
	if err != nil {
		return plain{}, err
	}
	opened, err := gcm.Open(nil, nonce, append(data, tag...), []byte(context))
	if err != nil {
		return plain{}, errTampered
	}
	p := plain{string(opened), parts[4]}
	return p, p.check()
}

func (k dataKey) gcm(nonce int) (cipher.AEAD, error) {
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, fmt.Errorf("its data key is none: %w", err)
	}
	return cipher.NewGCMWithNonceSize(block, nonce)
}
