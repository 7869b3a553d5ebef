/* The assistant's panel. Ctrl J opens and closes it, and it stays open from page to page. htmx loads the
   conversation. While a turn runs, its stream shows the reply; when it ends, htmx loads the turn once more. */
(() => {
  const OPEN = "fd-assistant-open";
  const panel = () => document.getElementById("fd-assistant");
  const turns = () => document.querySelectorAll("#assistant-turns [data-events]");
  const followed = new WeakSet();

  const scrollDown = () => {
    const talk = document.getElementById("assistant-conversation");
    talk.scrollTop = talk.scrollHeight;
  };

  const follow = (turn) => {
    if (followed.has(turn)) return;
    followed.add(turn);
    const stream = new EventSource(turn.dataset.events);
    const finish = () => {
      stream.close();
      if (turn.isConnected) htmx.ajax("GET", turn.dataset.turn, { target: turn, swap: "outerHTML" });
    };
    stream.onmessage = ({ data }) => {
      if (!turn.isConnected) { stream.close(); return; }
      const { partial } = JSON.parse(data);
      turn.querySelector("[data-partial]").textContent = partial;
      if (partial) turn.querySelector("[data-status]").textContent = "Writes…";
      scrollDown();
    };
    stream.addEventListener("end", finish);
    stream.onerror = () => { if (stream.readyState === EventSource.CLOSED) setTimeout(finish, 2000); };
    window.addEventListener("pagehide", () => stream.close(), { once: true });
  };

  let loaded = null;
  const load = (query = "") => {
    loaded = htmx.ajax("GET", panel().dataset.src + query, "#assistant-conversation");
  };

  const show = (isOpen) => {
    panel().hidden = !isOpen;
    document.querySelectorAll("[data-open-assistant]").forEach((one) => one.setAttribute("aria-expanded", isOpen));
    sessionStorage.setItem(OPEN, isOpen ? "1" : "");
    if (isOpen && !document.getElementById("assistant-turns")) load();
  };

  const open = () => {
    show(true);
    document.getElementById("assistant-question").focus();
  };

  const close = () => {
    show(false);
    document.querySelector("[data-open-assistant]")?.focus();
  };

  const clicks = {
    "[data-open-assistant]": () => (panel().hidden ? open() : close()),
    "[data-close-assistant]": close,
    "[data-new-conversation]": () => { load("?session=new"); document.getElementById("assistant-question").focus(); },
  };

  document.addEventListener("click", (event) => {
    if (!panel()) return;
    const hit = Object.keys(clicks).find((selector) => event.target.closest(selector));
    if (hit) clicks[hit]();
  });

  document.addEventListener("keydown", (event) => {
    if (!panel()) return;
    if (event.key.toLowerCase() === "j" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      if (panel().hidden) open(); else close();
    } else if (event.key === "Escape" && panel().contains(event.target)) {
      event.stopPropagation();
      close();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.id === "assistant-question") {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  }, true);

  /* A question that is asked while the conversation loads waits for it. */
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "assistant-form" || document.getElementById("assistant-turns")) return;
    event.preventDefault();
    event.stopPropagation();
    loaded.then(() => { if (document.getElementById("assistant-turns")) event.target.requestSubmit(); });
  }, true);

  /* A refusal (422) is shown beside the question. A session that has ended leads to the login. */
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (!panel()?.contains(detail.target)) return;
    if (detail.xhr.responseURL.includes("/login/")) location.reload();
    else if (detail.xhr.status === 422) Object.assign(detail, { shouldSwap: true, isError: false });
  });

  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.elt.id !== "assistant-form" || !detail.successful) return;
    document.getElementById("assistant-question").value = "";
    document.getElementById("assistant-refusal").textContent = "";
  });

  document.addEventListener("htmx:afterSettle", () => {
    if (!panel()) return;
    turns().forEach(follow);
    scrollDown();
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (panel() && sessionStorage.getItem(OPEN)) show(true);
  });
})();
