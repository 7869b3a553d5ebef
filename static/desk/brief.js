/* The form of a brief: rows are added and removed, and the shares of channels stay at 100 %. */
(() => {
  const form = document.getElementById("brief-form");
  const share = (row) => row.querySelector("[name=share]");
  const slider = (row) => row.querySelector("[data-slider]");
  /* Channels that take a share: those without an exact amount. */
  const sharing = () => [...form.querySelectorAll("[data-rows=channel] [data-row]")]
    .filter((row) => !row.querySelector("[name=fixed]").value.trim());

  const set = (row, value) => { share(row).value = slider(row).value = value; };

  /* Distribute what `fixed` leaves of 100 among the other rows, by their present shares. */
  const balance = (fixed) => {
    const others = sharing().filter((row) => row !== fixed);
    if (!others.length) {
      if (fixed) set(fixed, 100);
      return;
    }
    const rest = Math.max(others.length, 100 - (fixed ? Number(share(fixed).value) : 0));
    const sum = others.reduce((total, row) => total + (Number(share(row).value) || 0), 0);
    let left = rest;
    others.forEach((row, place) => {
      const last = place === others.length - 1;
      const spare = rest - others.length; // beyond the 1 % that each row keeps
      const part = sum ? (spare * (Number(share(row).value) || 0)) / sum : spare / others.length;
      const value = last ? left : 1 + Math.floor(part);
      set(row, value);
      left -= value;
    });
  };

  const changed = () => form.dispatchEvent(new Event("input", { bubbles: true }));

  const add = (kind) => {
    const rows = form.querySelector(`[data-rows=${kind}]`);
    rows.append(form.querySelector(`[data-new=${kind}]`).content.cloneNode(true));
    const row = rows.lastElementChild;
    if (kind === "channel") {
      set(row, Math.round(100 / sharing().length));
      balance(row);
    }
    row.querySelector("select, input").focus();
    changed();
  };

  const remove = (row) => {
    const isChannel = row.parentElement.dataset.rows === "channel";
    const button = form.querySelector(`[data-add=${row.parentElement.dataset.rows}]`);
    row.remove();
    if (isChannel) balance(null);
    button.focus();
    changed();
  };

  form.addEventListener("click", ({ target }) => {
    const { add: kind } = target.dataset;
    if (kind) add(kind);
    else if ("remove" in target.dataset) remove(target.closest("[data-row]"));
  });

  form.addEventListener("input", ({ target }) => {
    const row = target.closest?.("[data-rows=channel] [data-row]");
    if (!row) return;
    if (target === slider(row)) {
      const most = 100 - (sharing().length - 1);
      set(row, Math.min(Number(target.value), Math.max(1, most)));
      balance(row);
    } else if (target === share(row)) {
      slider(row).value = target.value;
    } else if (target.name === "fixed") {
      if (target.value.trim()) share(row).value = "";
      share(row).readOnly = slider(row).disabled = Boolean(target.value.trim());
      balance(null);
    }
  });
})();
