// Loads before the style, so that the page never flashes in the wrong theme. The choice is system, light or dark.
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const apply = () => {
    const choice = localStorage.getItem('clew.theme') || 'system';
    document.documentElement.dataset.theme = choice === 'system' ? (dark.matches ? 'dark' : 'light') : choice;
  };
  apply();
  dark.addEventListener('change', apply);
  addEventListener('clew-theme', apply);
})();
