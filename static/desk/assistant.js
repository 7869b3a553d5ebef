/* The assistant's panel. Ctrl J opens and closes it, and it stays open from page to page. htmx loads the
   conversation. While a turn runs, its stream shows the reply; when it ends, htmx loads the turn once more. */
(() => {
  const OPEN = "fd-assistant-open";
  const RETRY_MS = 5000;
  const panel = () => document.getElementById("fd-assistant");
  const conversation = () => document.getElementById("assistant-conversation");
  const question = () => document.getElementById("assistant-question");
  const followed = new WeakSet();
  let isAtEnd = true;
  let hadFocus = false;

  const scrollToEnd = () => { conversation().scrollTop = conversation().scrollHeight; };

  const finish = (turn) => {
    if (!turn.isConnected) return;
    htmx.ajax("GET", turn.dataset.turn, { source: turn, target: turn, swap: "outerHTML" });
    setTimeout(() => finish(turn), RETRY_MS);  // a turn that was loaded is not connected any more
  };

  /* Follow the first turn that runs: the others wait for it, and browsers limit open connections. */
  const follow = () => {
    const turn = conversation().querySelector("[data-events]");
    if (!turn || followed.has(turn)) return;
    followed.add(turn);
    const stream = new EventSource(turn.dataset.events);
    stream.onmessage = ({ data }) => {
      if (!turn.isConnected) { stream.close(); return; }
      const { status, partial } = JSON.parse(data);
      turn.querySelector("[data-partial]").textContent = partial;
      if (partial) turn.querySelector("[data-status]").textContent = "Writes…";
      else if (status !== "init") turn.querySelector("[data-status]").textContent = "Reads…";
      if (isAtEnd) scrollToEnd();
    };
    stream.addEventListener("end", () => { stream.close(); finish(turn); });
    stream.onerror = () => {
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => finish(turn), RETRY_MS);
    };
  };

  let loaded = null;
  const load = (query = "") => {
    conversation().replaceChildren();
    isAtEnd = true;
    const options = { source: conversation(), target: conversation() };
    loaded = htmx.ajax("GET", panel().dataset.src + query, options);
  };

  const show = (isOpen) => {
    panel().hidden = !isOpen;
    document.querySelectorAll("[data-open-assistant]").forEach((one) => one.setAttribute("aria-expanded", isOpen));
    sessionStorage.setItem(OPEN, isOpen ? "1" : "");
    if (isOpen && !document.getElementById("assistant-turns")) load();
  };

  const open = () => {
    show(true);
    question().focus();
  };

  const close = () => {
    show(false);
    document.querySelector("[data-open-assistant]")?.focus();
  };

  const clicks = {
    "[data-open-assistant]": () => (panel().hidden ? open() : close()),
    "[data-close-assistant]": close,
    "[data-new-conversation]": () => { load("?session=new"); question().focus(); },
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

  document.addEventListener("scroll", ({ target }) => {
    if (panel() && target === conversation()) {
      isAtEnd = target.scrollHeight - target.scrollTop - target.clientHeight < 40;
    }
  }, true);

  /* A session that has ended leads to the login. */
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (panel()?.contains(detail.target) && detail.xhr.responseURL.includes("/login/")) location.reload();
  });

  /* A refusal names its own target, beside the question. What was typed stays. */
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (!detail.successful || !panel()?.contains(detail.elt)) return;
    if (detail.xhr.getResponseHeader("HX-Retarget")) return;
    document.getElementById("assistant-refusal").textContent = "";
    if (detail.elt.id !== "assistant-form") return;
    question().value = "";
    isAtEnd = true;
  });

  document.addEventListener("htmx:beforeRequest", ({ target }) => {
    if (panel()?.contains(target)) hadFocus = panel().contains(document.activeElement);
  });

  /* The event comes from each new element. The button that had the focus may be gone. */
  document.addEventListener("htmx:afterSettle", ({ target }) => {
    if (!panel()?.contains(target)) return;
    follow();
    if (isAtEnd) scrollToEnd();
    if (hadFocus && document.activeElement === document.body) question().focus();
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (panel() && sessionStorage.getItem(OPEN)) show(true);
  });
})();
