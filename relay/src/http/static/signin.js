// Puts the secret behind the # into the form, so that nobody has to paste it. The
// fragment never reaches a server by itself, and leaves the address bar first.
"use strict";
const secret = location.hash.slice(1);
const form = document.getElementById("signin");
if (secret && form) {
  history.replaceState(null, "", location.pathname);
  form.elements.namedItem("secret").value = secret;
  form.submit();
}
