package stateserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// certificatePrefix is what the keys of certificates begin with that the server has made itself. They are numbered, and the
// last one counts.
const certificatePrefix = "server/certificates/"

const (
	certificateLife = 10 * 365 * 24 * time.Hour
	clockTolerance  = 24 * time.Hour // clients' clocks may be late
)

// selfSigned returns the certificate that the server has made itself and keeps in its storage, so that it is the same from one
// start to the next and for all servers on one storage. Where there is none, or one that lacks names, it is made.
func (s *Server) selfSigned(ctx context.Context, names []string) (tls.Certificate, error) {
	for range mostTries {
		keys, err := s.storage.List(ctx, certificatePrefix)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("looking for the server's certificate: %w", err)
		}
		last := int64(0)
		if len(keys) > 0 {
			kept, err := s.keptCertificate(ctx, keys[len(keys)-1])
			if err != nil {
				return tls.Certificate{}, fmt.Errorf("reading the server's certificate: %w", err)
			}
			if covers(kept.Leaf, names) && s.now().Before(kept.Leaf.NotAfter) {
				return kept, nil
			}
			last = numberOf(keys[len(keys)-1])
			names = slices.Compact(slices.Sorted(slices.Values(append(namesIn(kept.Leaf), names...))))
		}
		made, err := makeCertificate(names, s.now())
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("making a certificate: %w", err)
		}
		object, err := s.keys.seal(made)
		if err != nil {
			return tls.Certificate{}, err
		}
		err = s.storage.Create(ctx, fmt.Sprintf("%s%06d", certificatePrefix, last+1), object)
		if err != nil && !errors.Is(err, ErrExists) { // else another server has made one
			return tls.Certificate{}, fmt.Errorf("keeping the server's certificate: %w", err)
		}
	}
	return tls.Certificate{}, errors.New("the server's certificate changes again and again: do all servers on this storage have the same names?")
}

func (s *Server) keptCertificate(ctx context.Context, key string) (tls.Certificate, error) {
	object, err := s.storage.Read(ctx, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	parts, err := s.keys.open(object)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(parts[0], parts[0])
}

// makeCertificate returns a certificate and its key, as PEM. It is its own authority, so that clients can be given it as such.
func makeCertificate(names []string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "hive-test state server"},
		NotBefore: now.Add(-clockTolerance), NotAfter: now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	made := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(made, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...), nil
}

func covers(leaf *x509.Certificate, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil })
}

// namesIn are the names and addresses that a certificate is for.
func namesIn(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// ownNames are the names by which clients may know a server that listens on an address, beside those that it is given.
func ownNames(listen string, given []string) []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, given...)
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		if address, err := netip.ParseAddr(host); err != nil || !address.IsUnspecified() {
			names = append(names, host)
		}
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		names = append(names, strings.ToLower(host))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Fingerprint is the SHA-256 sum of a certificate, as openssl prints it.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
}

// serveCertificate answers with the certificate, which the handshake has shown already.
func (s *Server) serveCertificate(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return notAllowed(w, r, "GET")
	}
	if s.certificate == nil {
		return refuse(http.StatusNotFound, "the server has no certificate: it speaks plain HTTP")
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: s.certificate}) // nobody is there to be told
	return nil
}
