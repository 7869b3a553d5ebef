/* The page of a job looks for news every two seconds (htmx). What a person has opened, scrolled or focused stays
   so; updates can be paused; another page instead of the answer (the session has ended) is gone to. */
(() => {
  let paused = false;
  let kept = null;

  window.looking = () => !paused && document.visibilityState === "visible";

  const showPause = () => {
    const button = document.getElementById("job-pause");
    if (!button) return;
    button.hidden = false;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Refresh this page" : "Freeze this page";
  };

  const keep = () => {
    const page = document.getElementById("job-page");
    kept = {
      open: [...page.querySelectorAll("details[open][id]")].map((one) => one.id),
      scrolled: [...page.querySelectorAll("[data-keep]")].map((one) => [one.id, one.scrollLeft]),
      focus: document.activeElement?.id,
    };
  };

  const giveBack = () => {
    if (!kept) return;
    kept.open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    kept.scrolled.forEach(([id, left]) => { const one = document.getElementById(id); if (one) one.scrollLeft = left; });
    if (kept.focus && document.activeElement?.id !== kept.focus) {
      document.getElementById(kept.focus)?.focus({ preventScroll: true });
    }
    kept = null;
    showPause();
  };

  const showNow = () => {
    const frame = document.getElementById("job-graph");
    const now = frame?.querySelector("g.bad, g.you, g.late, g.run");
    if (!now || frame.scrollWidth <= frame.clientWidth) return;
    const box = now.getBoundingClientRect(), around = frame.getBoundingClientRect();
    frame.scrollLeft += (box.left + box.right - around.left - around.right) / 2;
  };

  document.addEventListener("DOMContentLoaded", () => {
    if (!document.getElementById("job-page")) return;
    showPause();
    showNow();
    document.body.addEventListener("click", (event) => {
      if (event.target.closest("#job-pause")) { paused = !paused; showPause(); }
    });
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      const asked = event.detail.pathInfo.requestPath.split("?")[0];
      if (new URL(event.detail.xhr.responseURL).pathname !== asked) {
        event.detail.shouldSwap = false;
        location.reload();
        return;
      }
      if (event.detail.shouldSwap) keep();
    });
    document.body.addEventListener("htmx:afterSettle", giveBack);
  });
})();
