"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  for (const element of document.querySelectorAll(".script")) element.hidden = false;

  // Light and dark: as the system says, until the reader says otherwise.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const toggle = byId("theme");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { toggle.textContent = dark() ? "Light" : "Dark"; };
  toggle.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();

  // Details stand open on paper.
  addEventListener("beforeprint", () => {
    for (const block of document.querySelectorAll("details.block")) block.open = true;
  });

  const source = byId("numbers");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const front = byId("front"), bars = byId("bars"), slider = byId("preference"), output = byId("choice");
  const pickA = byId("task-a"), pickB = byId("task-b");

  // Three digits, as everywhere on the page.
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const short = (v) => {
    if (!Number.isFinite(v)) return "–";
    if (v === 0) return "0";
    const size = Math.abs(v);
    let text;
    if (size >= 999.5 && size < 1e7) {
      text = String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
    } else if (size >= 1e-4 && size < 1e7) {
      const decimals = Math.max(0, 2 - Math.floor(Math.log10(size) + 1e-9));
      text = v.toFixed(decimals).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
    } else {
      const [digits, power] = v.toExponential(2).replace("+", "").split("e");
      text = digits.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") + "×10" + [...power].map((c) => raised[c]).join("");
    }
    return text.replace("-", "−");
  };
  const cut = (text, most) => {
    const letters = [...text];
    if (letters.length <= most) return text;
    const tail = Math.max(1, Math.floor(most / 3)), head = Math.max(1, most - tail - 1);
    return `${letters.slice(0, head).join("")}…${letters.slice(-tail).join("")}`; // names often differ at the end only
  };

  const svgNode = (name, attributes = {}, words) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (words !== undefined) node.textContent = words;
    return node;
  };
  const node = (name, className, words) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (words !== undefined) made.textContent = words;
    return made;
  };

  // A pair as it is looked at: task A first, from all weight on B to all weight on A.
  const view = (a, b) => {
    for (const pair of data.pairs) {
      if (pair.a === a && pair.b === b) {
        return { a, b, weight: pair.weight, weights: pair.weights, losses: pair.losses,
          current: pair.current, knee: pair.knee, minmax: pair.minmax };
      }
      if (pair.a === b && pair.b === a) {
        const turned = ([w, x, y]) => [1 - w, y, x];
        return { a, b, weight: 1 - pair.weight, weights: pair.weights.map((w) => 1 - w).reverse(),
          losses: [...pair.losses].reverse(), current: [pair.current[1], pair.current[0]],
          knee: turned(pair.knee), minmax: turned(pair.minmax) };
      }
    }
    return null;
  };
  const partners = (a) => {
    const found = new Set();
    for (const pair of data.pairs) {
      if (pair.a === a) found.add(pair.b);
      if (pair.b === a) found.add(pair.a);
    }
    return [...found].sort((x, y) => x - y);
  };
  const nearest = (weights, weight) => {
    let best = 0;
    weights.forEach((w, i) => { if (Math.abs(w - weight) < Math.abs(weights[best] - weight)) best = i; });
    return best;
  };

  const ticks = ({ log, low, high }, most) => {
    if (log) {
      for (const digits of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
        const list = [];
        for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
          for (const digit of digits) {
            const v = Number(`${digit}e${power}`);
            if (v >= low && v <= high) list.push(v);
          }
        }
        if (list.length <= most && list.length > 0) return list;
      }
    }
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= raw * 0.999);
    const list = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) list.push(i * step);
    return list;
  };
  const tickText = (list, log) => {
    const step = list.length > 1 ? list[1] - list[0] : Math.abs(list[0]) || 1;
    const most = Math.max(...list.map(Math.abs));
    if (log || most >= 1e6 || most < 1e-3) return list.map(short);
    const decimals = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9) + (/^2\.5/.test(step.toExponential()) ? 1 : 0)));
    return list.map((v) => v.toFixed(decimals).replace(/\B(?=(\d{3})+(\.|$))/g, decimals ? "" : "\u202f").replace("-", "−"));
  };

  const shapes = {
    current: (x, y, r) => svgNode("circle", { cx: x, cy: y, r, class: "mark-current" }),
    knee: (x, y, r) => svgNode("path", { d: `M${x} ${y - r * 1.25}L${x + r * 1.25} ${y}L${x} ${y + r * 1.25}L${x - r * 1.25} ${y}Z`, class: "mark-knee" }),
    minmax: (x, y, r) => svgNode("rect", { x: x - r * 0.9, y: y - r * 0.9, width: 1.8 * r, height: 1.8 * r, class: "mark-minmax" }),
    choice: (x, y, r) => {
      const ring = svgNode("g", { transform: `translate(${x} ${y})` });
      ring.append(svgNode("circle", { r: r + 2, class: "mark-halo" }), svgNode("circle", { r: r + 2, class: "mark-choice" }));
      return ring;
    },
  };
  const words = { choice: "your choice", current: "current model", knee: "knee", minmax: "min-max" };

  let seen = null; // the pair as it is looked at
  let place = null; // from losses to the chart
  let choice = null; // the moving point and its guides

  const drawFront = () => {
    const { a, b, losses, current, knee, minmax } = seen;
    const width = Math.max(260, Math.round(front.clientWidth));
    const height = Math.round(Math.max(270, Math.min(430, width * 0.72)));
    const curve = losses.map((row) => [row[a], row[b]]);
    const all = [...curve, current, knee.slice(1), minmax.slice(1)];
    // Where one end of the front is far off, equal ratios are equal distances.
    const ends = [0, 1].map((k) => [Math.min(...all.map((p) => p[k])), Math.max(...all.map((p) => p[k]))]);
    const log = ends.every(([low]) => low > 0) && ends.some(([low, high]) => high > 20 * low);
    const [xs, ys] = ends.map(([low, high]) => {
      const air = log ? Math.max(high / low, 1.02) ** 0.06 : (high - low || Math.abs(high) || 1) * 0.06;
      return log ? { log, low: low / air, high: high * air } : { log, low: low - air, high: high + air };
    });
    const across = ticks(xs, width < 420 ? 4 : 6), up = ticks(ys, 6);
    const acrossText = tickText(across, xs.log), upText = tickText(up, ys.log);
    const left = 34 + 7 * Math.max(...upText.map((t) => t.length)), bottom = height - 46, right = width - 12, top = 10;
    const share = ({ log, low, high }, v) => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    const x = (v) => left + share(xs, v) * (right - left);
    const y = (v) => bottom - share(ys, v) * (bottom - top);
    place = { x, y, left, bottom, curve };

    const names = [data.tasks[a], data.tasks[b]];
    const plot = svgNode("svg", { class: "plot", role: "img", viewBox: `0 0 ${width} ${height}`, height,
      "aria-label": `Pareto front of ${names[0]} and ${names[1]}` });
    across.forEach((v, i) => {
      plot.append(svgNode("path", { class: "grid", d: `M${x(v)} ${top}V${bottom}` }));
      plot.append(svgNode("text", { x: x(v), y: bottom + 17, "text-anchor": "middle" }, acrossText[i]));
    });
    up.forEach((v, i) => {
      plot.append(svgNode("path", { class: "grid", d: `M${left} ${y(v)}H${right}` }));
      plot.append(svgNode("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, upText[i]));
    });
    const room = (pixels) => Math.floor(pixels / 7) - data.loss.length - 4;
    plot.append(svgNode("text", { class: "name", x: (left + right) / 2, y: height - 8, "text-anchor": "middle" },
      `${data.loss} of ${cut(names[0], room(right - left))}`));
    plot.append(svgNode("text", { class: "name", x: 13, y: (top + bottom) / 2, "text-anchor": "middle",
      transform: `rotate(-90 13 ${(top + bottom) / 2})` }, `${data.loss} of ${cut(names[1], room(bottom - top))}`));
    plot.append(svgNode("path", { class: "curve", d: "M" + curve.map((p) => `${x(p[0]).toFixed(2)} ${y(p[1]).toFixed(2)}`).join("L") }));
    const guides = svgNode("path", { class: "guide", fill: "none" });
    plot.append(guides);
    plot.append(shapes.minmax(x(minmax[1]), y(minmax[2]), 5));
    plot.append(shapes.knee(x(knee[1]), y(knee[2]), 5));
    plot.append(shapes.current(x(current[0]), y(current[1]), 5.5));
    const dot = shapes.choice(0, 0, 6.5);
    dot.id = "point";
    plot.append(dot);
    choice = { dot, guides };

    const legend = node("ul", "legend");
    for (const [key, text] of Object.entries(words)) {
      const item = node("li");
      const sample = svgNode("svg", { width: 14, height: 14, "aria-hidden": "true" });
      sample.append(shapes[key](7, 7, key === "choice" ? 3 : 4.5));
      item.append(sample, text);
      legend.append(item);
    }
    front.replaceChildren(plot, legend);

    // Pointing at the curve chooses as well.
    const choose = (event) => {
      const box = plot.getBoundingClientRect();
      const at = [((event.clientX - box.left) * width) / box.width, ((event.clientY - box.top) * height) / box.height];
      let best = 0, least = Infinity;
      curve.forEach((p, i) => {
        const distance = Math.hypot(x(p[0]) - at[0], y(p[1]) - at[1]);
        if (distance < least) { least = distance; best = i; }
      });
      slider.value = best;
      move();
    };
    plot.addEventListener("pointerdown", (event) => { plot.setPointerCapture(event.pointerId); choose(event); });
    plot.addEventListener("pointermove", (event) => { if (event.buttons & 1) choose(event); });
  };

  let rows = [], most = 1;
  const drawBars = () => {
    const largest = (list) => Math.max(...list.filter(Number.isFinite));
    const anywhere = largest(seen.losses.flat());
    // An end of the front may be far off for a third task: bars are cut there rather than all made tiny.
    most = Math.min(anywhere, 3 * largest(data.now)) * 1.02 || 1;
    rows = data.tasks.map((name, t) => {
      const bar = node("div", t === seen.a || t === seen.b ? "bar chosen" : "bar");
      const who = node("span", "who", cut(name, 17));
      who.title = name;
      const rail = node("span", "rail");
      const [least, lost, now] = [node("i", "least"), node("i", "lost"), node("i", "now")];
      rail.append(least, lost, now);
      const number = node("span", "n");
      bar.append(who, rail, number);
      least.style.width = `${Math.min(100, (100 * data.least[t]) / most)}%`;
      lost.style.left = least.style.width;
      now.style.left = `${Math.min(100, (100 * data.now[t]) / most)}%`;
      now.title = `current model: ${short(data.now[t])}`;
      return { bar, lost, number };
    });
    bars.replaceChildren(...rows.map((row) => row.bar));
  };

  const says = (heading, value, note) => {
    const part = node("span", "", heading);
    part.append(node("b", "", value));
    if (note) part.append(node("small", "", note));
    return part;
  };

  const move = () => {
    const i = Number(slider.value);
    const { a, b, weights, losses, current } = seen;
    const row = losses[i];
    const [x, y] = [place.x(row[a]), place.y(row[b])];
    choice.dot.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)})`);
    choice.guides.setAttribute("d", `M${place.left} ${y}H${x}V${place.bottom}`);
    rows.forEach(({ bar, lost, number }, t) => {
      const from = Math.min(most, data.least[t]);
      lost.style.width = `${Math.max(0, (100 * (Math.min(most, row[t]) - from)) / most)}%`;
      lost.classList.toggle("over", row[t] > most);
      number.textContent = short(row[t]);
      bar.dataset.loss = row[t];
    });
    const change = (v, was) => {
      const by = (v - was) / was;
      if (!Number.isFinite(by)) return `now ${short(was)}`;
      if (Math.abs(by) < 0.0005) return "as now";
      const size = Math.abs(by) >= 0.0995 ? Math.round(Math.abs(100 * by)) : Number(Math.abs(100 * by).toPrecision(2));
      return `${size} % ${by < 0 ? "below" : "above"} now`;
    };
    const text = (v) => v.toFixed(v > 0 && v < 0.01 ? 4 : v > 0.99 && v < 1 ? 4 : 2);
    output.replaceChildren(
      weights.length > 1 ? says("Weight of A", text(weights[i]), `B has ${text(1 - weights[i])}`)
        : says("Weight of A", "any", "one model is best for both"),
      says(`A: ${cut(data.tasks[a], 14)}`, short(row[a]), change(row[a], current[0])),
      says(`B: ${cut(data.tasks[b], 14)}`, short(row[b]), change(row[b], current[1])),
    );
    Object.assign(output.dataset, { weight: weights[i], a: row[a], b: row[b] });
    slider.setAttribute("aria-valuetext",
      `weight ${text(weights[i])} on ${data.tasks[a]}: ${data.loss} ${short(row[a])} on it, ${short(row[b])} on ${data.tasks[b]}`);
  };

  const look = (a, b, weight) => {
    seen = view(a, b);
    drawFront();
    drawBars();
    slider.max = seen.weights.length - 1;
    slider.value = nearest(seen.weights, weight === undefined ? seen.weight : weight);
    move();
  };
  const offer = (select, list, chosen) => {
    select.replaceChildren(...list.map((t) => {
      const option = node("option", "", data.tasks[t]);
      option.value = t;
      option.selected = t === chosen;
      return option;
    }));
  };
  const inPairs = data.tasks.map((_, t) => t).filter((t) => partners(t).length > 0);
  const first = data.pairs[0];
  offer(pickA, inPairs, first.a);
  offer(pickB, partners(first.a), first.b);
  pickA.addEventListener("change", () => {
    const a = Number(pickA.value), list = partners(a);
    const b = list.includes(Number(pickB.value)) ? Number(pickB.value) : list[0];
    offer(pickB, list, b);
    look(a, b);
  });
  pickB.addEventListener("change", () => look(Number(pickA.value), Number(pickB.value)));
  slider.addEventListener("input", move);
  byId("to-current").addEventListener("click", () => { slider.value = nearest(seen.weights, seen.weight); move(); });
  byId("to-knee").addEventListener("click", () => { slider.value = nearest(seen.weights, seen.knee[0]); move(); });
  byId("to-minmax").addEventListener("click", () => { slider.value = nearest(seen.weights, seen.minmax[0]); move(); });
  document.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(front.clientWidth - width) < 2) return;
    width = front.clientWidth;
    const kept = slider.value;
    drawFront();
    slider.value = kept;
    move();
  }).observe(front);
  look(first.a, first.b);
})();
