"""Makes what a federation with TLS and authenticated nodes needs: an authority, a server's certificate, a key for each node.

    python certificates.py DIRECTORY NODE...

For a trial on one machine: the certificate is good for localhost and 127.0.0.1, for 30 days. In earnest, have the server's
certificate from your own authority, and make each node's key where that node is: private keys do not travel.
"""

import datetime
import ipaddress
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS = 30


def name(text):
    """A subject that has nothing but a name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def builder(subject, issuer, key):
    """A certificate for some days from now."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def write_private(path, key, form):
    """A key that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def main(directory, nodes):
    """ca.crt, server.crt (with the authority's behind it), server.key, and NODE, NODE.pub for each node."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca = builder("a federation", "a federation", authority)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    ca = ca.add_extension(
        x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True
    )
    ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
    ca = ca.sign(authority, hashes.SHA384())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    own = builder("the server", "a federation", server)
    own = own.add_extension(x509.SubjectAlternativeName(names), critical=False)
    own = own.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    own = own.sign(authority, hashes.SHA384())
    pem = serialization.Encoding.PEM
    (directory / "ca.crt").write_bytes(ca.public_bytes(pem))
    (directory / "server.crt").write_bytes(own.public_bytes(pem) + ca.public_bytes(pem))
    write_private(directory / "server.key", server, serialization.PrivateFormat.PKCS8)
    for node in nodes:
        key = ec.generate_private_key(ec.SECP384R1())
        write_private(directory / node, key, serialization.PrivateFormat.OpenSSH)
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        (directory / f"{node}.pub").write_bytes(public + f" {node}\n".encode())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python certificates.py DIRECTORY NODE...")
    main(sys.argv[1], sys.argv[2:])
