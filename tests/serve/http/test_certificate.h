// Certificates for an hour, and their keys.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace fovea::serve {

using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

inline KeyPointer make_key() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

inline void write_key(EVP_PKEY* key, const std::string& path) {
  BIO* const file = BIO_new_file(path.c_str(), "w");
  PEM_write_bio_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  BIO_free(file);
}

// Signed by its own key, for an hour.
inline void write_certificate(EVP_PKEY* key, const std::string& path) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  auto* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  BIO* const file = BIO_new_file(path.c_str(), "w");
  PEM_write_bio_X509(file, certificate);
  BIO_free(file);
  X509_free(certificate);
}

}  // namespace fovea::serve
