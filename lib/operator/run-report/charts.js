/*
 * Draws the charts of a run's report in the reader's browser. Runs by itself in the page, with uPlot and the element
 * `run-data` (chart-data.ts) before it. Each chart's facts stand in words beside it, so nothing here is said only once.
 */
(() => {
  const { uPlot } = window;
  const data = JSON.parse(document.getElementById('run-data').textContent);
  const { pagesPerPoint } = data;
  const narrow = matchMedia('(width < 40rem)');

  const number = (value) => value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });

  const duration = (ms) => {
    if (ms < 1_000) return `${number(ms)} ms`;
    if (ms < 60_000) return `${number(ms / 1_000)} s`;
    if (ms < 3_600_000) return `${number(ms / 60_000)} min`;
    return ms < 86_400_000 ? `${number(ms / 3_600_000)} h` : `${number(ms / 86_400_000)} d`;
  };

  const size = (bytes) => {
    const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
    return `${number(bytes / 1_000 ** power)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
  };

  const iso = (seconds) => new Date(seconds * 1_000).toISOString();
  const clock = (seconds) => iso(seconds).slice(11, 19);
  const day = (seconds) =>
    new Date(seconds * 1_000).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

  /* Colours */

  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const font = () => `12px ${getComputedStyle(document.body).fontFamily}`;
  const withAlpha = (hex, alpha) =>
    `${hex}${Math.round(alpha * 255)
      .toString(16)
      .padStart(2, '0')}`;

  /* Scales and axes */

  const round = [1, 2, 5];
  const decimals = Array.from({ length: 16 }, (_, power) => round.map((digit) => digit * 10 ** power)).flat();
  const minutes = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400];
  const days = decimals.slice(1, 12).map((count) => count * 86_400);
  const spans = [...decimals.filter((ms) => ms <= 10_000), ...[...minutes, ...days].map((seconds) => seconds * 1_000)];

  const axis = (more) => ({
    stroke: token('quiet'),
    font: font(),
    grid: { stroke: token('faint'), width: 1 },
    ticks: { show: false },
    ...more,
  });
  const upright = (values, incrs) =>
    axis({
      scale: 'y',
      size: narrow.matches ? 54 : 64,
      gap: 8,
      space: 30,
      incrs,
      values: (_, splits) => splits.map((value) => (value === 0 ? '0' : values(value))),
    });
  const baseline = (more) => axis({ size: 30, gap: 6, grid: { show: false }, ...more });

  const pageAxis = () =>
    baseline({
      space: 60,
      incrs: decimals,
      values: (_, splits) => {
        const first = splits.find((page) => page >= 1 && Number.isInteger(page));
        return splits.map((page) =>
          page >= 1 && Number.isInteger(page) ? `${page === first ? 'page ' : ''}${number(page)}` : '',
        );
      },
    });

  const timeAxis = () =>
    baseline({
      size: 46,
      // Times of less than a second are longer to write.
      space: data.end - data.start < 5 ? 110 : narrow.matches ? 64 : 84,
      values: (_, splits, __, ___, incr) =>
        splits.map((seconds, index) => {
          const newDay = index === 0 || day(seconds) !== day(splits[index - 1]);
          if (incr >= 86_400) return day(seconds);
          const time =
            incr >= 60
              ? clock(seconds).slice(0, 5)
              : incr >= 1
                ? clock(seconds)
                : iso(seconds)
                    .slice(11, 23)
                    .replace(/0{1,2}$/, '');
          return newDay ? `${time}\n${day(seconds)}` : time;
        }),
    });

  /**
   * Where the scale ends. A few values far beyond all others would press these flat: then it ends above the others, and
   * the few are marked.
   */
  const ceilingOf = (values) => {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    const max = sorted.at(-1) || 1;
    const common = sorted[Math.floor(0.95 * (sorted.length - 1))] || max;
    return sorted.length >= 20 && max > 4 * common ? { top: 2 * common, cut: true } : { top: max * 1.08, cut: false };
  };

  /* Page charts: x is the page, each point the middle of its pages */

  const middles = data.firstPage.map((first) => first + (pagesPerPoint - 1) / 2);
  const firstEdge = data.firstPage[0] - 0.5;
  const lastEdge = data.firstPage.at(-1) + pagesPerPoint - 0.5;

  const pagesAt = (index) => {
    const first = data.firstPage[index];
    const last = first + data.pages[index] - 1;
    return first === last ? `Page ${number(first)}` : `Pages ${number(first)}–${number(last)}`;
  };

  const pageScales = (top) => ({
    x: {
      time: false,
      range: (_, min, max) => (min === max || min === null ? [firstEdge, lastEdge] : [min, max]),
      auto: false,
      min: firstEdge,
      max: lastEdge,
    },
    y: { range: () => [0, top] },
  });

  const barPaths = (u, ...more) => {
    const width = (u.bbox.width * pagesPerPoint) / (u.scales.x.max - u.scales.x.min) / devicePixelRatio;
    const gap = width > 6 ? 1.5 : width > 3 ? 0.75 : 0;
    return uPlot.paths.bars({ size: [1, 40], gap, align: 0 })(u, ...more);
  };

  /** Small triangles along the top, over what goes beyond it. */
  const cutMarks = (values, top) => (u) => {
    const { ctx, bbox } = u;
    const r = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = token('ink');
    for (const [index, value] of values.entries()) {
      const x = u.valToPos(middles[index], 'x', true);
      if (value === null || value <= top || x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x - r, bbox.top + r * 1.2);
      ctx.lineTo(x + r, bbox.top + r * 1.2);
      ctx.lineTo(x, bbox.top - r * 0.4);
      ctx.fill();
    }
    ctx.restore();
  };

  const readout = (id, words) => (u) => {
    const element = document.getElementById(`${id}-readout`);
    const { idx } = u.cursor;
    element.textContent = idx === null || idx === undefined || u.cursor.left < 0 ? element.dataset.rest : words(idx);
  };

  const draw = (id, { height, scales, axes, series, values, hooks = {}, bands = [], rest = '', words, sync }) => {
    const place = document.getElementById(id);
    if (place === null) return [];
    document.getElementById(`${id}-readout`).dataset.rest = rest;
    const options = {
      width: place.clientWidth,
      height: () => (narrow.matches ? Math.round(height * 0.8) : height),
      padding: [10, id === 'bytes' || id === 'reports' ? 20 : 58, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false },
        ...(sync ? { sync: { key: 'pages', scales: ['x', null] } } : {}),
      },
      scales,
      axes,
      series: [{}, ...series],
      bands,
      hooks: { ...hooks, setCursor: [readout(id, words)] },
    };
    return [
      { place, height: options.height, plot: new uPlot({ ...options, height: options.height() }, values, place) },
    ];
  };

  const beyond = (cut) => (cut ? '▲ beyond the scale' : '');

  /* The charts */

  const timeline = () => {
    const { start, end, waits, attempts, failures } = data;
    const last = data.firstPage.at(-1) + data.pages.at(-1) - 1;
    // From nothing at the start, to the last page for as long as the run was worked on.
    const times = [start, ...data.loggedAt, Math.max(end, data.loggedAt.at(-1))];
    const logged = [0, ...data.firstPage.map((first, index) => first + data.pages[index] - 1), last];
    const latest = times.at(-1);
    const margin = Math.max((latest - start) * 0.01, 0.005);
    const pagesBy = (time) => {
      let low = 0;
      let high = times.length - 1;
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (times[middle] <= time) low = middle;
        else high = middle - 1;
      }
      return logged[low];
    };
    const inside = (u, draws) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top - 8 * devicePixelRatio, bbox.width, bbox.height + 8 * devicePixelRatio);
      ctx.clip();
      draws(ctx, bbox, devicePixelRatio);
      ctx.restore();
    };
    const waitBands = (u) =>
      inside(u, (ctx, { top, height }, ratio) => {
        ctx.fillStyle = withAlpha(token('wait'), 0.55);
        for (const [at, seconds] of waits) {
          const left = u.valToPos(at, 'x', true);
          const right = u.valToPos(Math.min(at + seconds, latest), 'x', true);
          ctx.fillRect(left, top, Math.max(2 * ratio, right - left), height);
        }
      });
    const marks = (u) =>
      inside(u, (ctx, { top, height }, ratio) => {
        ctx.fillStyle = token('attempt');
        for (const [at] of failures) ctx.fillRect(u.valToPos(at, 'x', true) - ratio, top, 2 * ratio, height);
        ctx.strokeStyle = token('page');
        ctx.lineWidth = 1.5 * ratio;
        // Too many to tell apart, they stand along the bottom and leave the line in sight.
        const crowded = attempts.length > 40;
        for (const [at] of attempts) {
          const x = u.valToPos(at, 'x', true);
          if (crowded) {
            ctx.fillRect(x - 0.75 * ratio, top + height - 8 * ratio, 1.5 * ratio, 8 * ratio);
            continue;
          }
          const y = u.valToPos(pagesBy(at), 'y', true);
          const r = 5.5 * ratio;
          ctx.beginPath();
          ctx.moveTo(x, y - r);
          ctx.lineTo(x + r, y);
          ctx.lineTo(x, y + r);
          ctx.lineTo(x - r, y);
          ctx.closePath();
          ctx.stroke();
          ctx.fill();
        }
      });
    return draw('timeline', {
      height: 260,
      scales: {
        x: {
          time: true,
          range: (_, min, max) =>
            max - min < 0.001 ? [min - margin, max + margin] : [min, max + (max === latest ? margin : 0)],
        },
        y: { range: () => [0, last * 1.04] },
      },
      axes: [timeAxis(), upright(number, decimals)],
      series: [
        {
          stroke: token('line'),
          width: 2,
          fill: withAlpha(token('line'), 0.08),
          points: { show: false },
          paths: uPlot.paths.stepped({ align: 1 }),
        },
      ],
      values: [times, logged],
      hooks: { drawAxes: [waitBands], draw: [marks] },
      words: (index) => `${day(times[index])}, ${clock(times[index])} UTC · ${number(logged[index])} pages logged`,
    });
  };

  const time = () => {
    const { before, latency, transfer } = data;
    const sum = (...parts) =>
      middles.map((_, index) => (before[index] === null ? null : parts.reduce((all, part) => all + part[index], 0)));
    const all = sum(before, latency, transfer);
    const { top, cut } = ceilingOf(all);
    const bar = (name) => ({
      fill: token(name),
      width: 0,
      stroke: token(name),
      points: { show: false },
      paths: barPaths,
    });
    return draw('time', {
      sync: true,
      height: 240,
      scales: pageScales(top),
      axes: [pageAxis(), upright(duration, spans)],
      // Each behind the next, so that what shows of it is its own part.
      series: [bar('transfer'), bar('latency'), bar('before')],
      values: [middles, all, sum(before, latency), before],
      hooks: { draw: [cutMarks(all, top)] },
      rest: beyond(cut),
      words: (index) =>
        before[index] === null
          ? `${pagesAt(index)} · found in the store, not timed`
          : `${pagesAt(index)} · ${duration(before[index])} before, ${duration(latency[index])} latency, ${duration(transfer[index])} transfer`,
    });
  };

  /** A line over the pages, and, where a point stands for several, the range that it is the mean of. */
  const course = (id, { values, range, format, incrs, height, levels = [] }) => {
    const { top, cut } = ceilingOf([...values, ...levels.map(({ at }) => at)].concat(range === null ? [] : range[1]));
    const few = values.length <= 400;
    const line = {
      stroke: token('line'),
      width: few ? 1 : 1.25,
      spanGaps: false,
      points: { show: few, size: values.length > 150 ? 3.5 : 5, fill: token('line'), stroke: token('line'), width: 0 },
    };
    const hidden = { width: 0, points: { show: false } };
    const levelLines = (u) => {
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      ctx.save();
      ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
      ctx.strokeStyle = token('ink');
      ctx.lineWidth = ratio;
      ctx.setLineDash([4 * ratio, 4 * ratio]);
      const heights = levels.map(({ at }) => Math.round(u.valToPos(at, 'y', true)) + 0.5);
      for (const y of heights) {
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
      }
      // Beside the lines, and apart from each other where the lines are not.
      const [lower, upper] = heights;
      const push = upper === undefined ? 0 : Math.max(0, (34 * ratio - (lower - upper)) / 2);
      ctx.textAlign = 'left';
      ctx.fillStyle = token('ink');
      for (const [index, { at, name }] of levels.entries()) {
        const y = heights[index] + (index === 0 ? push : -push);
        ctx.fillText(name, bbox.left + bbox.width + 6 * ratio, y - 3 * ratio);
        ctx.fillText(format(at), bbox.left + bbox.width + 6 * ratio, y + 11 * ratio);
      }
      ctx.restore();
    };
    return draw(id, {
      sync: true,
      height,
      scales: pageScales(top),
      axes: [pageAxis(), upright(format, incrs)],
      series: range === null ? [line] : [hidden, hidden, line],
      bands: range === null ? [] : [{ series: [2, 1], fill: withAlpha(token('line'), 0.22) }],
      values: range === null ? [middles, values] : [middles, ...range, values],
      hooks: { draw: [levelLines, cutMarks(range === null ? values : range[1], top)] },
      rest: beyond(cut),
      words: (index) => {
        if (values[index] === null) return `${pagesAt(index)} · not known`;
        const between = range === null ? '' : ` on average, ${format(range[0][index])} to ${format(range[1][index])}`;
        return `${pagesAt(index)} · ${format(values[index])}${between}`;
      },
    });
  };

  const charts = () => {
    const { median, p95 } = data;
    const levels =
      median === null ? [] : [{ at: median, name: 'median' }, ...(p95 > median ? [{ at: p95, name: 'p95' }] : [])];
    return [
      ...timeline(),
      ...(median === null ? [] : time()),
      ...course('latency', {
        values: data.latency,
        range: data.latencyRange,
        format: duration,
        incrs: spans,
        height: 220,
        levels,
      }),
      ...course('bytes', { values: data.bytes, range: data.bytesRange, format: size, incrs: decimals, height: 160 }),
      ...course('reports', {
        values: data.reports,
        range: data.reportsRange,
        format: number,
        incrs: decimals,
        height: 160,
      }),
    ];
  };

  /* Drawn anew for another scheme, another width, and paper */

  let drawn = charts();
  const again = () => {
    for (const { plot } of drawn) plot.destroy();
    drawn = charts();
  };
  const fit = () => {
    for (const { place, plot, height } of drawn) {
      if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: height() });
    }
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  new ResizeObserver(fit).observe(document.querySelector('main'));
  addEventListener('beforeprint', () => {
    document.documentElement.classList.add('paper');
    again();
    for (const { plot, height } of drawn) plot.setSize({ width: Math.min(680, plot.width), height: height() });
  });
  addEventListener('afterprint', () => {
    document.documentElement.classList.remove('paper');
    again();
  });
})();
