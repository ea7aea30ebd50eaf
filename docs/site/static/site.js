// Opens the tab that a link names.
function openTab() {
  const tab = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (tab && tab.classList.contains("tab-content")) {
    tab.previousElementSibling.click();
    tab.parentElement.scrollIntoView();
  }
}
addEventListener("hashchange", openTab);
addEventListener("DOMContentLoaded", openTab);
